#include "tools/bench/verbs_session.h"

#include <chrono>
#include <future>

#include "absl/strings/str_cat.h"
#include "tools/common/await.h"
#include "tools/common/interrupt.h"
#include "tools/file_service/session.h"

namespace pollux::tools {

absl::Status VerbsSession::Connect(const SocketAddress& server, size_t count) {
  absl::Status status;
  while (clients_.size() < count && status.ok()) status = ConnectOne(server);
  if (status.ok() || absl::IsCancelled(status)) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(
          "verbs measurements: ", status.message(),
          clients_.empty()
              ? "; `pollux bench --server` serves them, `pollux serve` only "
                "--measure null,blocks"
              : absl::StrCat("; only ", clients_.size(),
                             " connections were established: request fewer with --pairs")));
}

absl::Status VerbsSession::ConnectOne(const SocketAddress& server) {
  const uint32_t core = CoreOf(clients_.size());
  std::promise<absl::Status> ready;
  std::future<absl::Status> result = ready.get_future();
  auto made = node_.Run(core, [&] {
    return VerbsClient::Connect(
        &node_.worker(core), &node_.manager(core), server,
        [&ready](absl::Status status) { ready.set_value(std::move(status)); });
  });
  if (!made.ok()) return made.status();
  std::unique_ptr<VerbsClient> client = *std::move(made);
  while (result.wait_for(std::chrono::milliseconds(kTickMs)) != std::future_status::ready) {
    // Its end is that of the promise.
    if (Interrupted()) node_.Run(core, [&client] { client->Disconnect([] {}); });
  }
  const absl::Status status = InterruptedOr(result.get());
  if (status.ok()) {
    clients_.push_back(std::move(client));
  } else {
    node_.Run(core, [&client] { client.reset(); });
  }
  return status;
}

void VerbsSession::Keep(size_t count) {
  if (clients_.size() <= count) return;
  std::vector<std::promise<void>> gone(clients_.size() - count);
  for (size_t i = count; i < clients_.size(); ++i) {
    node_.Run(CoreOf(i), [&, i] {
      clients_[i]->Disconnect([&gone, i, count] { gone[i - count].set_value(); });
    });
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kDisconnectSeconds);
  for (std::promise<void>& one : gone) one.get_future().wait_until(until);
  for (size_t i = count; i < clients_.size(); ++i) {
    node_.Run(CoreOf(i), [&, i] { clients_[i].reset(); });
  }
  clients_.resize(count);
}

std::vector<LoadResult> VerbsSession::Measure(
    const std::vector<std::pair<size_t, VerbsMeasurement>>& measurements, size_t beside) {
  std::vector<std::promise<LoadResult>> done(measurements.size());
  node_.RunOnEach([&](uint32_t core) {
    for (size_t i = 0; i < measurements.size(); ++i) {
      const auto& [number, measurement] = measurements[i];
      if (CoreOf(number) != core) continue;
      clients_[number]->Measure(
          measurement, [&done, i](LoadResult result) { done[i].set_value(std::move(result)); });
    }
  });
  int grace_ms = kInterruptGraceMs;
  std::vector<LoadResult> results;
  for (std::promise<LoadResult>& one : done) {
    if (results.size() + beside == measurements.size()) {
      for (size_t i = results.size(); i < measurements.size(); ++i) {
        const size_t number = measurements[i].first;
        node_.Run(CoreOf(number), [&, number] { clients_[number]->Stop(); });
      }
      beside = 0;
    }
    std::future<LoadResult> result = one.get_future();
    while (result.wait_for(std::chrono::milliseconds(kTickMs)) != std::future_status::ready) {
      if (grace_ms < 0) continue;
      if (Interrupted()) grace_ms -= kTickMs;
      if (!node_.device().CheckInterface().ok()) grace_ms = -1;
      if (grace_ms < 0) DisconnectAll();
    }
    results.push_back(result.get());
    results.back().status = InterruptedOr(results.back().status);
  }
  // The last callbacks may still be unwinding on the cores.
  node_.RunOnEach([](uint32_t) {});
  return results;
}

void VerbsSession::DisconnectAll() {
  for (size_t i = 0; i < clients_.size(); ++i) {
    node_.Run(CoreOf(i), [&, i] { clients_[i]->Disconnect([] {}); });
  }
}

}  // namespace pollux::tools
