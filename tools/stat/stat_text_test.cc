#include "tools/stat/stat_text.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json Process(uint64_t sent, uint64_t busy_ns, uint64_t now_ns) {
  return {{"pid", 4711u},
          {"file_prefix", "pollux-4711"},
          {"workers",
           {{{"worker", 0u},
             {"core",
              {{"cpu", 1u},
               {"busy_ns", busy_ns},
               {"start_ns", 1'000'000'000u},
               {"now_ns", now_ns},
               {"connections", 3u},
               {"queue_pairs", 1u}}},
             {"cm", {{"cm_tx_msgs/req", 3u}, {"cm_rx_msgs/req", 0u}}},
             {"ports",
              {{{"name", "wire0"},
                {"mac", "02:00:00:00:00:01"},
                {"gid/0", "192.0.2.1"},
                {"path_mtu", 1024u},
                {"sent_pkts", sent},
                {"rcvd_pkts", 0u}}}},
             {"queue_pairs",
              {{{"qpn", 77u}, {"type", "RC"}, {"state", "RTS"}, {"peer", "192.0.2.2"}}}}}}}};
}

TEST(ColumnsTest, NumbersAreAlignedToTheRight) {
  EXPECT_EQ(Columns({"name", "n"}, {{"a", "1"}, {"longer", "1,234"}}),
            "  name    n\n  a           1\n  longer  1,234\n");
}

TEST(StatTextTest, OnlyNonzeroCountersAreShown) {
  const Json process = Process(12'345, 500'000'000, 2'000'000'000);
  const std::string text = StatText(process, false);
  EXPECT_TRUE(Has(text, "process 4711, pollux-4711\n")) << text;
  EXPECT_TRUE(
      Has(text, "worker 0: CPU 1, busy 50.0 % since its start, 3 connections, 1 queue pairs"))
      << text;
  EXPECT_FALSE(Has(text, "ring drops")) << text;
  EXPECT_TRUE(Has(text, "port 0/1 wire0, MAC 02:00:00:00:00:01, path MTU 1024")) << text;
  EXPECT_TRUE(Has(text, "  192.0.2.1\n")) << text;
  EXPECT_TRUE(Has(text, "sent_pkts  12,345\n")) << text;
  EXPECT_TRUE(Has(text, "cm_tx_msgs/req  3\n")) << text;
  EXPECT_TRUE(Has(text, "RTS")) << text;
  EXPECT_FALSE(Has(text, "rcvd_pkts  0")) << text;
  EXPECT_TRUE(Has(StatText(process, true), "cm_rx_msgs/req  0\n"));
}

TEST(StatTextTest, RatesSinceTheLastSampleAreShown) {
  const Json before = Process(1'000, 500'000'000, 2'000'000'000);
  const Json now = Process(3'000, 600'000'000, 4'000'000'000);
  const std::string text = StatText(now, false, &before);
  EXPECT_TRUE(Has(text, "sent_pkts  3,000  (1000 a second)")) << text;
  EXPECT_TRUE(Has(text, "busy 5.0 %,")) << text;
  EXPECT_TRUE(Has(StatText(now, false), "% since its start,"));
}

TEST(StatTextTest, EachCoreOfAProcessIsShown) {
  Json process = Process(1'000, 500'000'000, 2'000'000'000);
  Json second = process["workers"][0];
  second["worker"] = 1u;
  second["core"]["cpu"] = 5u;
  second["core"]["connections"] = 4'000u;
  second["core"]["steering/handed_over"] = 11u;
  second["core"]["steering/by_ring"] = 22u;
  second["core"]["steering/ring_full"] = 33u;
  process["workers"].push_back(second);
  const std::string text = StatText(process, false);
  EXPECT_TRUE(Has(text,
                  "  worker  CPU  busy %  connections  queue pairs  sent_pkts  rcvd_pkts  "
                  "handed over  by ring  ring drops\n"
                  "       0    1    50.0            3            1      1,000          0  "
                  "          0        0           0\n"
                  "       1    5    50.0        4,000            1      1,000          0  "
                  "         11       22          33\n"))
      << text;
  Json later = process;
  later["workers"][1]["core"]["busy_ns"] = 600'000'000u;
  later["workers"][1]["core"]["now_ns"] = 4'000'000'000u;
  EXPECT_TRUE(Has(StatText(later, false, &process), "       1    5     5.0"));
}

TEST(StatTextTest, QueuePairsAboveTheMaximumAreOnlyCounted) {
  Json process = Process(1, 0, 2);
  Json& list = process["workers"][0]["queue_pairs"];
  while (list.size() < kMaxQueuePairsShown) list.push_back({{"qpn", 1u}});
  EXPECT_FALSE(Has(StatText(process, false), "more (see"));
  list.push_back({{"qpn", 1u}});
  EXPECT_TRUE(Has(StatText(process, false), "and 1 more (see --json)"));
}

TEST(StatTextTest, MissingFieldsAreLeftOut) {
  EXPECT_EQ(StatText(Json::object(), false), "process 0, \n");
  EXPECT_TRUE(Has(StatText({{"workers", {{{"worker", 2u}}}}}, false), "worker 2"));
}

TEST(ConnectionsTextTest, EachConnectionIsShown) {
  const Json process = {
      {"pid", 5},
      {"file_prefix", "server"},
      {"connections",
       {{{"local", "192.0.2.1:20049"},
         {"state", "LISTEN"},
         {"port_space", "RDMA_PS_TCP"},
         {"age_ms", 3'723'000u},
         {"peer", "[::]:0"}},
        {{"local", "192.0.2.1:20049"},
         {"peer", "192.0.2.2:4711"},
         {"port_space", "RDMA_PS_TCP"},
         {"state", "ESTABLISHED"},
         {"qpn", 77u},
         {"peer_qpn", 88u},
         {"path_mtu", 4096u},
         {"age_ms", 1'500u},
         {"queue_pair", {{"sent_bytes", 100u}, {"rcvd_bytes", 200u}, {"retransmitted_pkts", 7u}}},
         {"recorder", {"  -1 s  queue pair: RTS"}},
         {"worker", 3u},
         {"cpu", 5u}}}}};
  const std::string text = ConnectionsText(process);
  EXPECT_TRUE(Has(text, "LISTEN")) << text;
  EXPECT_FALSE(Has(text, "[::]")) << text;
  EXPECT_TRUE(Has(text, "1:02:03 h")) << text;
  EXPECT_TRUE(Has(text, "192.0.2.2:4711  RDMA_PS_TCP  ESTABLISHED")) << text;
  EXPECT_TRUE(Has(text, "1.5 s")) << text;
  EXPECT_TRUE(Has(text, "7       3    5\n")) << text;
  EXPECT_TRUE(Has(text, "queue pair 77\n  -1 s  queue pair: RTS\n")) << text;
}

TEST(AgeTest, AgesHaveTheFittingUnit) {
  EXPECT_EQ(Age(0), "0 ms");
  EXPECT_EQ(Age(999), "999 ms");
  EXPECT_EQ(Age(1'000), "1.0 s");
  EXPECT_EQ(Age(59'900), "59.9 s");
  EXPECT_EQ(Age(60'000), "1:00 min");
  EXPECT_EQ(Age(3'599'000), "59:59 min");
  EXPECT_EQ(Age(3'600'000), "1:00:00 h");
}

}  // namespace
}  // namespace pollux::tools
