#include "tools/exporter/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using prometheus::MetricFamily;
using prometheus::MetricType;

Json Sample(Json worker) {
  worker["worker"] = 0u;
  return {{"duration_ns", 2'000'000u},
          {"processes",
           {{{"pid", 7u}, {"file_prefix", "here"}, {"workers", Json::array({std::move(worker)})}}}},
          {"silent", Json::array()}};
}

// Each series as "name{label=value,...}" with its value.
std::map<std::string, double> Series(const std::vector<MetricFamily>& families) {
  std::map<std::string, double> series;
  for (const MetricFamily& family : families) {
    for (const auto& metric : family.metric) {
      std::string name = family.name + "{";
      for (const auto& label : metric.label) {
        absl::StrAppend(&name, name.back() == '{' ? "" : ",", label.name, "=", label.value);
      }
      const bool first =
          series
              .emplace(name + "}", family.type == MetricType::Counter ? metric.counter.value
                                                                      : metric.gauge.value)
              .second;
      EXPECT_TRUE(first) << name;
    }
  }
  return series;
}

constexpr char kWorker[] = "process=here,pid=7,worker=0";

TEST(MetricsTest, NoProcessIsNotAnError) {
  const auto series = Series(
      Metrics({{"duration_ns", 0u}, {"processes", Json::array()}, {"silent", Json::array()}}));
  EXPECT_EQ(series.at("pollux_processes{}"), 0);
  EXPECT_EQ(series.at("pollux_exporter_scrape_success{}"), 1);
  for (const auto& [name, value] : series)
    EXPECT_FALSE(absl::StartsWith(name, "pollux_up")) << name;
}

TEST(MetricsTest, AFailedScrapeIsReported) {
  const auto series = Series(Metrics({{"duration_ns", 0u},
                                      {"processes", Json::array()},
                                      {"silent", Json::array()},
                                      {"error", "refused"}}));
  EXPECT_EQ(series.at("pollux_exporter_scrape_success{}"), 0);
  EXPECT_EQ(series.at("pollux_processes{}"), 0);
}

TEST(MetricsTest, SilentProcessIsNotUp) {
  Json sample = Sample(Json::object());
  sample["silent"].push_back({{"pid", 8u}, {"file_prefix", "there"}, {"reason", "is stopped"}});
  const auto series = Series(Metrics(sample));
  EXPECT_EQ(series.at("pollux_up{process=here,pid=7}"), 1);
  EXPECT_EQ(series.at("pollux_up{process=there,pid=8}"), 0);
  EXPECT_EQ(series.at("pollux_processes{}"), 1);
}

TEST(MetricsTest, PortMetricsHaveInfiniBandNames) {
  const Json port = {{"name", "eth0"},        {"mac", "02:00:00:00:00:01"}, {"sent_pkts", 1u},
                     {"rcvd_pkts", 2u},       {"sent_bytes", 3u},           {"rcvd_bytes", 4u},
                     {"link_downed", 5u},     {"path_mtu", 1024u},          {"drops/bad_icrc", 6u},
                     {"drops/no_buffer", 7u}, {"device/rx_missed", 8u},     {"gid/1", "10.0.0.1"}};
  const auto series = Series(Metrics(Sample({{"ports", Json::array({port})}})));
  const auto of = [&](const std::string& name, const std::string& more = "") {
    return series.at(absl::StrCat("pollux_", name, "{", kWorker, ",device=eth0,port=1", more, "}"));
  };
  EXPECT_EQ(of("port_packets_transmitted_total"), 1);
  EXPECT_EQ(of("port_packets_received_total"), 2);
  EXPECT_EQ(of("port_data_transmitted_bytes_total"), 3);
  EXPECT_EQ(of("port_data_received_bytes_total"), 4);
  EXPECT_EQ(of("link_downed_total"), 5);
  EXPECT_EQ(of("port_path_mtu_bytes"), 1024);
  EXPECT_EQ(of("port_drops_total", ",reason=bad_icrc"), 6);
  EXPECT_EQ(of("port_drops_total", ",reason=no_buffer"), 7);
  EXPECT_EQ(of("port_discards_received_total"), 8);
  EXPECT_EQ(of("port_info", ",mac=02:00:00:00:00:01"), 1);
}

TEST(MetricsTest, CounterWithoutARuleKeepsItsName) {
  const auto series = Series(Metrics(
      Sample({{"ports", Json::array({{{"name", "eth0"}, {"impaired/sent/lost", 3u}}})},
              {"cm", {{"cm_rx_msgs/req", 2u}, {"cm_rx_drops/bad_length", 1u}}},
              {"nfs", {{"calls/read", 9u}, {"bytes_read", 5u}, {"waited", 4u}, {"busy", 6u}}},
              {"memory", {{"packet_buffers_free", 11u}}}})));
  const auto of = [&](const std::string& name, const std::string& more = "") {
    return series.at(absl::StrCat("pollux_", name, "{", kWorker, more, "}"));
  };
  EXPECT_EQ(of("port_impaired_sent_lost_total", ",device=eth0,port=1"), 3);
  EXPECT_EQ(of("cm_messages_received_total", ",message=req"), 2);
  EXPECT_EQ(of("cm_drops_total", ",reason=bad_length"), 1);
  EXPECT_EQ(of("nfs_calls_total", ",procedure=read"), 9);
  EXPECT_EQ(of("nfs_read_bytes_total"), 5);
  EXPECT_EQ(of("nfs_waited_total"), 4);
  EXPECT_EQ(of("nfs_busy_calls"), 6);
  EXPECT_EQ(of("memory_packet_buffers_free"), 11);
}

TEST(MetricsTest, AProcessNameIsValidUtf8) {
  Json sample = Sample(Json::object());
  sample["processes"][0]["file_prefix"] = "a\xFFz";
  sample["silent"] = Json::array({{{"pid", 8u}, {"file_prefix", "cut\xC3"}, {"reason", "none"}}});
  const auto series = Series(Metrics(sample));
  EXPECT_EQ(series.at("pollux_up{process=a\xEF\xBF\xBDz,pid=7}"), 1);
  EXPECT_EQ(series.at("pollux_up{process=cut\xEF\xBF\xBD,pid=8}"), 0);
}

TEST(MetricsTest, CoresReportBusyTimeAndConnections) {
  const auto series = Series(Metrics(Sample({{"core",
                                              {{"index", 0u},
                                               {"cpu", 3u},
                                               {"polls", 10u},
                                               {"busy_ns", 500'000'000u},
                                               {"start_ns", 1'000'000'000u},
                                               {"now_ns", 3'000'000'000u},
                                               {"connections", 2u},
                                               {"queue_pairs", 4u}}}})));
  const auto of = [&](const std::string& name) {
    return series.at(absl::StrCat("pollux_", name, "{", kWorker, "}"));
  };
  EXPECT_EQ(of("worker_busy_seconds_total"), 0.5);
  EXPECT_EQ(of("worker_uptime_seconds"), 2);
  EXPECT_EQ(of("worker_cpu"), 3);
  EXPECT_EQ(of("worker_polls_total"), 10);
  EXPECT_EQ(of("connections"), 2);
  EXPECT_EQ(of("queue_pairs"), 4);
  for (const auto& [name, value] : series) {
    EXPECT_FALSE(absl::StrContains(name, "now_ns") || absl::StrContains(name, "index")) << name;
  }
}

TEST(MetricsTest, ClientsAndServersDifferByRole) {
  const auto series = Series(Metrics(Sample(
      {{"rpc",
        {{"server/connections", 1u}, {"server/calls_received", 5u}, {"client/calls_sent", 6u}}}})));
  EXPECT_EQ(series.at(absl::StrCat("pollux_rpc_connections{", kWorker, ",role=server}")), 1);
  EXPECT_EQ(series.at(absl::StrCat("pollux_rpc_calls_received_total{", kWorker, ",role=server}")),
            5);
  EXPECT_EQ(series.at(absl::StrCat("pollux_rpc_calls_sent_total{", kWorker, ",role=client}")), 6);
}

TEST(MetricsTest, CallTimesAreACumulativeHistogram) {
  const auto families = Metrics(Sample({{"rpc",
                                         {{"server/call_time_ns/1024", 3u},
                                          {"server/call_time_ns/2048", 0u},
                                          {"server/call_time_ns/8589934592", 2u},
                                          {"server/call_time_ns/inf", 1u},
                                          {"server/call_time_ns/sum", 2'500'000'000u}}}}));
  const auto family = std::ranges::find(families, "pollux_rpc_call_duration_seconds",
                                        [](const MetricFamily& one) { return one.name; });
  ASSERT_NE(family, families.end());
  EXPECT_EQ(family->type, MetricType::Histogram);
  ASSERT_EQ(family->metric.size(), 1u);
  EXPECT_EQ(family->metric[0].label.back().value, "server");
  const auto& histogram = family->metric[0].histogram;
  EXPECT_EQ(histogram.sample_count, 6u);
  EXPECT_EQ(histogram.sample_sum, 2.5);
  std::vector<std::pair<double, uint64_t>> buckets;
  for (const auto& bucket : histogram.bucket) {
    buckets.emplace_back(bucket.upper_bound, bucket.cumulative_count);
  }
  EXPECT_EQ(buckets, (std::vector<std::pair<double, uint64_t>>{
                         {1.024e-6, 3}, {2.048e-6, 3}, {8.589934592, 5}, {INFINITY, 6}}));
}

TEST(MetricsTest, ConnectionsAreLeftOutUnlessRequested) {
  Json sample = Sample(Json::object());
  sample["processes"][0]["connections"] = Json::array({{{"worker", 0u}, {"comm_id", 5u}}});
  const auto has_connections = [](const auto& families) {
    return std::ranges::any_of(families, [](const MetricFamily& family) {
      return family.name == "pollux_connection_info";
    });
  };
  EXPECT_TRUE(has_connections(Metrics(sample)));
  EXPECT_FALSE(has_connections(Metrics(sample, /*connections=*/false)));
}

TEST(MetricsTest, ConnectionsHaveStateAndCounters) {
  Json sample = Sample(Json::object());
  sample["processes"][0]["connections"] = Json::array(
      {{{"worker", 0u},
        {"comm_id", 5u},
        {"local", "10.0.0.1:20049"},
        {"peer", "10.0.0.2:4000"},
        {"port_space", "RDMA_PS_TCP"},
        {"state", "ESTABLISHED"},
        {"queue_pair", {{"sent_bytes", 9u}, {"rcvd_bytes", 8u}, {"retransmitted_pkts", 7u}}}},
       {{"worker", 0u}, {"comm_id", 6u}, {"local", "10.0.0.1:20049"}, {"state", "LISTEN"}}});
  const auto series = Series(Metrics(sample));
  const std::string of =
      absl::StrCat(kWorker, ",comm_id=5,local=10.0.0.1:20049,peer=10.0.0.2:4000");
  EXPECT_EQ(series.at(absl::StrCat("pollux_connection_info{", of,
                                   ",port_space=RDMA_PS_TCP,state=ESTABLISHED}")),
            1);
  EXPECT_EQ(series.at(absl::StrCat("pollux_connection_data_transmitted_bytes_total{", of, "}")), 9);
  EXPECT_EQ(series.at(absl::StrCat("pollux_connection_retransmitted_packets_total{", of, "}")), 7);
  size_t of_listener = 0;
  for (const auto& [name, value] : series) of_listener += absl::StrContains(name, "comm_id=6");
  EXPECT_EQ(of_listener, 1u);
}

TEST(MetricsTest, OnlyCountersEndWithTotal) {
  const auto families = Metrics(
      Sample({{"core", {{"polls", 1u}, {"cpu", 0u}, {"busy_ns", 1u}}},
              {"ports", Json::array({{{"name", "eth0"}, {"sent_pkts", 1u}, {"path_mtu", 1u}}})},
              {"memory", {{"queue_pairs", 1u}}}}));
  std::set<std::string> names;
  for (const MetricFamily& family : families) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(absl::EndsWith(family.name, "_total"), family.type == MetricType::Counter)
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

}  // namespace
}  // namespace pollux::tools
