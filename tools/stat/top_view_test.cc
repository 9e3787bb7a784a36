#include "tools/stat/top_view.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMs = 1'000'000;  // in nanoseconds

Json Connection(uint64_t id, const std::string& peer, uint64_t sent_bytes, uint64_t age_ms) {
  return {{"comm_id", id},
          {"local", "192.0.2.1:20049"},
          {"peer", peer},
          {"state", "ESTABLISHED"},
          {"worker", 0u},
          {"qpn", 100 + id},
          {"age_ms", age_ms},
          {"queue_pair",
           {{"sent_bytes", sent_bytes},
            {"sent_pkts", sent_bytes / 1000},
            {"rcvd_bytes", 0u},
            {"retransmitted_pkts", id},
            {"round_trip_ns", id * 1'500},
            {"window_pkts", 64u},
            {"send_queue", 3u},
            {"receive_queue", 64u}}}};
}

// `n`: how often something has happened.
Json Snapshot(uint64_t n) {
  return {
      {"processes",
       {{{"pid", 4711u},
         {"workers",
          {{{"worker", 0u},
            {"core",
             {{"cpu", 1u}, {"busy_ns", 5 * n * kMs}, {"start_ns", 0u}, {"now_ns", 10 * n * kMs}}},
            {"ports",
             {{{"name", "eth0"},
               {"sent_pkts", n * 1'000},
               {"rcvd_pkts", n},
               {"sent_bytes", n * 1'000'000},
               {"rcvd_bytes", n * 10},
               {"retransmitted_pkts", n},
               {"retransmitted_responses", n},
               {"device/rx_missed", n},
               {"drops/no_buffer", n * 2},
               {"drops/bad_icrc", 7u}}}}}}},
         {"connections",
          {{{"state", "LISTEN"}, {"local", "192.0.2.1:20049"}, {"peer", "[::]:0"}},
           Connection(1, "192.0.2.9:1", n * 1'000, 9'000),
           Connection(2, "192.0.2.8:2", n * 5'000, 5'000),
           Connection(3, "192.0.2.7:3", n * 3'000, 7'000)}}}}}};
}

std::string Text(const TopTables& tables) {
  return absl::StrCat(absl::StrJoin(tables.head, "\n"), "\n", absl::StrJoin(tables.rows, "\n"));
}

std::string View(const TopChoice& choice) {
  return Text(MakeTopTables(Snapshot(300), Snapshot(100), choice));
}

bool Shows(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string PeersInOrder(TopSort sort) {
  const std::string view = View({.sort = sort, .filter = ""});
  std::string order;
  for (size_t at = view.find("192.0.2."); at != std::string::npos;
       at = view.find("192.0.2.", at + 1)) {
    if (view[at + 8] != '1') order += view[at + 8];
  }
  return order;
}

TEST(TopTest, CoresAndPortsAreShownWithTheirRates) {
  const std::string view = View({});
  EXPECT_TRUE(Shows(view, "process  worker  CPU  busy %  port  out/s  in/s  out B/s")) << view;
  EXPECT_TRUE(Shows(view, "4711       0    1    50.0  eth0   100k   100     100M")) << view;
  EXPECT_TRUE(Shows(view, "drops by reason:  missed by the device 100/s  no_buffer 200/s")) << view;
  EXPECT_FALSE(Shows(view, "bad_icrc")) << "it has not grown";
}

TEST(TopTest, RatesUseTheTimeBetweenTheAnswersOfEachWorker) {
  Json now = Snapshot(300), before = Snapshot(100);
  Json slow = Snapshot(700);  // 6 s later than `before`, since it answers late
  slow["processes"][0]["pid"] = 4712u;
  now["processes"].push_back(slow["processes"][0]);
  slow = Snapshot(100);
  slow["processes"][0]["pid"] = 4712u;
  before["processes"].push_back(slow["processes"][0]);
  const std::string view = Text(MakeTopTables(now, before, {}));
  EXPECT_TRUE(Shows(view, "4711       0    1    50.0  eth0   100k   100     100M")) << view;
  EXPECT_TRUE(Shows(view, "4712       0    1    50.0  eth0   100k   100     100M")) << view;
  EXPECT_TRUE(Shows(view, "4711  192.0.2.8:2  ESTABLISHED     500k")) << view;
  EXPECT_TRUE(Shows(view, "4712  192.0.2.8:2  ESTABLISHED     500k")) << view;
}

TEST(TopTest, ConnectionsAreShownWithTheirRates) {
  const std::string view = View({});
  EXPECT_TRUE(Shows(view, "192.0.2.8:2  ESTABLISHED     500k")) << view;
  EXPECT_FALSE(Shows(view, "LISTEN")) << view;
  EXPECT_TRUE(Shows(view, "resent  RTT us  window  out/s  in/s  send queue")) << view;
  EXPECT_TRUE(Shows(view, "2     3.0      64    500     0")) << view;
}

TEST(TopTest, RoundTripAndWindowAreBlankUntilTheyAreKnown) {
  Json now = Snapshot(300);
  Json& qp = now["processes"][0]["connections"][1]["queue_pair"];
  qp["round_trip_ns"] = 0u;
  qp.erase("window_pkts");
  const std::string view = Text(MakeTopTables(now, Snapshot(100), {.filter = "192.0.2.9"}));
  EXPECT_TRUE(Shows(view, "     1                    100     0")) << view;
}

TEST(TopTest, LongRoundTripsHaveNoFraction) {
  Json now = Snapshot(300);
  now["processes"][0]["connections"][1]["queue_pair"]["round_trip_ns"] = 12'641'600u;
  const std::string view = Text(MakeTopTables(now, Snapshot(100), {.filter = "192.0.2.9"}));
  EXPECT_TRUE(Shows(view, "     1   12642      64")) << view;
}

TEST(TopTest, EachRowHasItsConnection) {
  const TopTables tables = MakeTopTables(Snapshot(300), Snapshot(100), {});
  ASSERT_EQ(tables.rows.size(), 3u);
  EXPECT_EQ(
      tables.connections,
      (std::vector<TopConnection>{{.pid = 4711, .comm_id = 2, .qpn = 102, .peer = "192.0.2.8:2"},
                                  {.pid = 4711, .comm_id = 3, .qpn = 103, .peer = "192.0.2.7:3"},
                                  {.pid = 4711, .comm_id = 1, .qpn = 101, .peer = "192.0.2.9:1"}}));
  EXPECT_TRUE(Shows(tables.rows[0], "192.0.2.8"));
}

TEST(TopTest, ConnectionsAreSortedByEachOrder) {
  EXPECT_EQ(PeersInOrder(TopSort::kRate), "879");
  EXPECT_EQ(PeersInOrder(TopSort::kPackets), "879");
  EXPECT_EQ(PeersInOrder(TopSort::kRetransmissions), "789");
  EXPECT_EQ(PeersInOrder(TopSort::kAge), "978");
  EXPECT_EQ(PeersInOrder(TopSort::kPeer), "789");
  EXPECT_EQ(PeersInOrder(TopSort::kState), "987");
}

TEST(TopTest, OnlyConnectionsThatMatchTheFilterAreShown) {
  const std::string view = View({.filter = "0.2.7"});
  EXPECT_TRUE(Shows(view, "192.0.2.7:3"));
  EXPECT_FALSE(Shows(view, "192.0.2.8:2"));
}

TEST(TopTest, NewConnectionsHaveARateOfZero) {
  const std::string view = Text(MakeTopTables(Snapshot(300), Json::object(), {}));
  EXPECT_TRUE(Shows(view, "192.0.2.8:2  ESTABLISHED        0")) << view;
  EXPECT_TRUE(Shows(view, "drops by reason:  none"));
}

TEST(TopTest, AnEmptySnapshotHasOnlyHeaders) {
  const TopTables tables = MakeTopTables(Json::object(), Json::object(), {});
  EXPECT_EQ(tables.head.size(), 3u);
  EXPECT_TRUE(tables.rows.empty());
}

TEST(TopSortTest, SortNamesRoundTrip) {
  for (const TopSort sort : {TopSort::kRate, TopSort::kPackets, TopSort::kRetransmissions,
                             TopSort::kAge, TopSort::kPeer, TopSort::kState}) {
    EXPECT_EQ(ParseTopSort(TopSortName(sort)), sort);
  }
  EXPECT_FALSE(ParseTopSort("size"));
}

TEST(FitTest, LinesAreCutToTheScreen) {
  EXPECT_EQ(Fit({"abc", "d"}, {"e"}, 0, 2, 2), (std::vector<std::string>{"ab", "d"}));
  EXPECT_EQ(Fit({"abc"}, {"d"}, 0, 5, 80), (std::vector<std::string>{"abc", "d"}));
  EXPECT_TRUE(Fit({"abc"}, {"d"}, 0, 0, 0).empty());
}

TEST(FitTest, TheBodyIsScrolledAsFarAsItReaches) {
  const std::vector<std::string> body = {"0", "1", "2", "3"};
  EXPECT_EQ(Fit({"h"}, body, 1, 3, 80), (std::vector<std::string>{"h", "1", "2"}));
  EXPECT_EQ(Fit({"h"}, body, 3, 3, 80), (std::vector<std::string>{"h", "2", "3"}));
  EXPECT_EQ(Fit({"h"}, body, 3, 9, 80).size(), 5u);
}

}  // namespace
}  // namespace pollux::tools
