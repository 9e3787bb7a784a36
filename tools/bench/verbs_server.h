// The server of verbs measurements: receives, echoes, and memory for READ and WRITE.
#ifndef POLLUX_TOOLS_BENCH_VERBS_SERVER_H_
#define POLLUX_TOOLS_BENCH_VERBS_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"
#include "tools/bench/peer_handshake.h"

namespace pollux::tools {

// Serves up to kBenchMaxPairs connections at a time and rejects further ones. Answers a SEND with
// immediate data by a SEND of the same size; only receives one without. All functions must be
// called on the worker's core.
class VerbsServer {
 public:
  // `log` gets a line when the first client has connected and when the last one has gone. Worker
  // and manager must outlive the server. Errors are those of the manager.
  static absl::StatusOr<std::unique_ptr<VerbsServer>> Listen(
      engine::Worker* worker, cm::Manager* manager, uint16_t port,
      absl::AnyInvocable<void(const std::string&)> log);
  ~VerbsServer();

  uint64_t served() const { return served_; }  // connections established so far

 private:
  class Connection;

  VerbsServer(engine::Worker* worker, cm::Manager* manager,
              absl::AnyInvocable<void(const std::string&)> log);

  void OnRequest(const cm::Event& request);
  void OnEstablished();
  void Tell(const absl::Status& failure);
  void OnEnded(uint64_t number, const absl::Status& status, bool stood);

  engine::Worker* worker_;
  cm::Manager* manager_;
  absl::AnyInvocable<void(const std::string&)> log_;
  cm::Id* listener_ = nullptr;
  uint64_t requests_ = 0;
  uint64_t served_ = 0;
  uint64_t standing_ = 0;
  std::string last_failure_;  // logged once for many connections that end in the same way
  // For all messages of all connections; its contents do not matter.
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBenchMaxBytes);
  // For work that is posted to the worker's loop and must be skipped if the server has been
  // destroyed.
  std::shared_ptr<VerbsServer*> self_ = std::make_shared<VerbsServer*>(this);
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_SERVER_H_
