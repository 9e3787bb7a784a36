// The serving end of verbs measurements: receives, echoes, and memory to READ and WRITE.
#ifndef POLLUX_TOOLS_BENCH_VERBS_SERVER_H_
#define POLLUX_TOOLS_BENCH_VERBS_SERVER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "tools/bench/greeting.h"
#include "tools/verbs_connection.h"

namespace pollux::tools {

// Serves one client after another; who comes while one is served is rejected. A SEND with immediate
// data is answered by a SEND of as many bytes, one without is only received. Every call on the
// worker's core.
class VerbsServer final : private VerbsConnection::User {
 public:
  // `log` is told of clients that come and go. Worker and manager outlive the server. Errors as
  // VerbsConnection::Listen.
  static absl::StatusOr<std::unique_ptr<VerbsServer>> Listen(
      engine::Worker* worker, cm::Manager* manager, uint16_t port,
      absl::AnyInvocable<void(const std::string&)> log);
  ~VerbsServer() override;

  uint64_t clients() const { return clients_; }  // that have connected so far

 private:
  VerbsServer(engine::Worker* worker, cm::Manager* manager, uint16_t port,
              absl::AnyInvocable<void(const std::string&)> log)
      : worker_(worker), manager_(manager), port_(port), log_(std::move(log)) {}

  absl::Status ListenAgain();
  absl::Status OnReady() override;
  void OnEstablished(absl::Span<const uint8_t> private_data) override;
  void OnCompletion(const ibv_wc& wc) override;
  void OnEnded(const absl::Status& status) override;
  absl::Status Receive();
  absl::Status Echo(uint32_t bytes);

  engine::Worker* worker_;
  cm::Manager* manager_;
  const uint16_t port_;
  absl::AnyInvocable<void(const std::string&)> log_;
  uint64_t clients_ = 0;
  // Of all that comes and goes: what it holds tells nothing.
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBenchMaxBytes);
  memory::MemoryRegion region_;
  std::array<uint8_t, Greeting::kBytes> greeting_{};
  // Work that others of the worker's loop do later for this server, as long as it is there.
  std::shared_ptr<VerbsServer*> self_ = std::make_shared<VerbsServer*>(this);
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_SERVER_H_
