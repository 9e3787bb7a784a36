#include "tools/stat/process_stat.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of names like "WORKER/ports".
absl::StatusOr<std::set<uint64_t>> Workers(TelemetryClient& process) {
  const absl::StatusOr<Json> answer = process.Ask("workers");
  if (!answer.ok()) return answer.status();
  std::set<uint64_t> workers;
  for (const auto& [name, value] : answer->items()) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(name.substr(0, name.find('/')), &number)) workers.insert(number);
  }
  return workers;
}

// Sets `to[name]` to the answer unless there is no such thing; other errors are errors.
absl::Status Take(TelemetryClient& process, const std::string& topic, const std::string& parameters,
                  const char* name, Json* to) {
  absl::StatusOr<Json> answer = process.Ask(topic, parameters);
  if (absl::IsNotFound(answer.status())) return absl::OkStatus();
  if (!answer.ok()) return answer.status();
  if (!answer->is_null()) (*to)[name] = *std::move(answer);
  return absl::OkStatus();
}

// Every number of a list that comes in pages.
absl::Status ForEach(TelemetryClient& process, const std::string& topic, uint64_t worker,
                     const std::function<absl::Status(uint64_t)>& visit) {
  for (std::string after;;) {
    const absl::StatusOr<Json> page =
        process.Ask(topic, after.empty() ? absl::StrCat(worker) : absl::StrCat(worker, ",", after));
    if (absl::IsNotFound(page.status())) return absl::OkStatus();
    if (!page.ok()) return page.status();
    if (!page->is_array() || page->empty()) return absl::OkStatus();
    for (const Json& number : *page) {
      if (!number.is_number_unsigned()) {
        return absl::DataLossError(
            absl::StrCat("the reply for ", topic, " is not a list of numbers"));
      }
      if (absl::Status status = visit(number.get<uint64_t>()); !status.ok()) return status;
    }
    const std::string last = absl::StrCat(page->back().get<uint64_t>());
    if (last == after) return absl::OkStatus();
    after = last;
  }
}

Json Begin(const TelemetryClient& process) {
  return {{"pid", process.pid()}, {"file_prefix", process.file_prefix()}};
}

absl::StatusOr<Json> GatherWorker(TelemetryClient& process, uint64_t worker, bool queue_pairs) {
  const std::string number = absl::StrCat(worker);
  Json json = {{"worker", worker}};
  absl::Status status;
  for (const auto& [topic, name] : {std::pair("worker", "core"),
                                    {"memory", "memory"},
                                    {"cm", "cm"},
                                    {"rpc", "rpc"},
                                    {"nfs", "nfs"}}) {
    // If it does not answer one request, the next would cost another time-out.
    status = Take(process, topic, number, name, &json);
    if (!status.ok()) return status;
  }
  json["ports"] = Json::array();
  for (uint64_t port = 1;; ++port) {
    Json one;
    status = Take(process, "port", absl::StrCat(worker, ",", port), "port", &one);
    if (!status.ok()) return status;
    if (one.is_null()) break;
    json["ports"].push_back(std::move(one["port"]));
  }
  json["queue_pairs"] = Json::array();
  if (!queue_pairs) return json;
  status = ForEach(process, "qps", worker, [&](uint64_t qpn) {
    Json one;
    absl::Status taken = Take(process, "qp", absl::StrCat(qpn, ",", worker), "qp", &one);
    if (taken.ok() && !one.is_null()) json["queue_pairs"].push_back(std::move(one["qp"]));
    return taken;
  });
  if (!status.ok()) return status;
  return json;
}

// `where`: the worker and its CPU.
absl::Status AddConnection(TelemetryClient& process, const Json& where, uint64_t comm_id,
                           bool recorders, Json* list) {
  absl::StatusOr<Json> told =
      process.Ask("connection", absl::StrCat(comm_id, ",", where["worker"].get<uint64_t>()));
  if (absl::IsNotFound(told.status())) return absl::OkStatus();  // ended meanwhile
  if (!told.ok()) return told.status();
  Json one = where;
  one.update(*told);
  const auto qpn = one.find("qpn");
  if (qpn != one.end() && qpn->is_number_unsigned() && *qpn != 0u) {
    const std::string which = absl::StrCat(qpn->get<uint64_t>());
    absl::Status status = Take(process, "qp", which, "queue_pair", &one);
    if (status.ok() && recorders) status = Take(process, "recorder", which, "recorder", &one);
    if (!status.ok()) return status;
  }
  list->push_back(std::move(one));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> GatherStat(TelemetryClient& process, bool queue_pairs) {
  const auto workers = Workers(process);
  if (!workers.ok()) return workers.status();
  Json json = Begin(process);
  json["workers"] = Json::array();
  for (const uint64_t worker : *workers) {
    absl::StatusOr<Json> one = GatherWorker(process, worker, queue_pairs);
    if (!one.ok()) return one.status();
    json["workers"].push_back(*std::move(one));
  }
  return json;
}

absl::StatusOr<Json> GatherConnections(TelemetryClient& process, bool recorders) {
  const auto workers = Workers(process);
  if (!workers.ok()) return workers.status();
  Json json = Begin(process);
  json["connections"] = Json::array();
  for (const uint64_t worker : *workers) {
    Json core;
    absl::Status status = Take(process, "worker", absl::StrCat(worker), "core", &core);
    if (!status.ok()) return status;
    const Json where = {{"worker", worker}, {"cpu", core["core"]["cpu"]}};
    status = ForEach(process, "connections", worker, [&](uint64_t comm_id) {
      return AddConnection(process, where, comm_id, recorders, &json["connections"]);
    });
    if (!status.ok()) return status;
  }
  return json;
}

}  // namespace pollux::tools
