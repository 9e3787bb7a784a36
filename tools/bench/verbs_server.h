// The serving end of verbs measurements: receives, echoes, and memory to READ and WRITE.
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

// Serves up to kBenchMaxPairs connections at a time; who comes then is rejected. A SEND with
// immediate data is answered by a SEND of as many bytes, one without is only received. Every call
// on the worker's core.
class VerbsServer {
 public:
  // `log` is told when there are clients and when there are none any more. Worker and manager
  // outlive the server. Errors as the manager's.
  static absl::StatusOr<std::unique_ptr<VerbsServer>> Listen(
      engine::Worker* worker, cm::Manager* manager, uint16_t port,
      absl::AnyInvocable<void(const std::string&)> log);
  ~VerbsServer();

  uint64_t served() const { return served_; }  // connections that stood so far

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
  std::string last_failure_;  // told once of many connections that end alike
  // Of all that comes and goes: what it holds tells nothing.
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBenchMaxBytes);
  // Work that others of the worker's loop do later for this server, as long as it is there.
  std::shared_ptr<VerbsServer*> self_ = std::make_shared<VerbsServer*>(this);
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_SERVER_H_
