// The measuring end of verbs measurements.
#ifndef POLLUX_TOOLS_BENCH_VERBS_CLIENT_H_
#define POLLUX_TOOLS_BENCH_VERBS_CLIENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/engine/polling/clock.h"
#include "tools/bench/peer_handshake.h"
#include "tools/bench/verbs_connection.h"
#include "tools/common/load.h"

namespace pollux::tools {

enum class VerbsOperation : uint8_t {
  kEcho,   // a SEND, until the server's application has answered it by another
  kSend,   // a SEND, until it is acknowledged
  kWrite,  // an RDMA WRITE, until it is acknowledged
  kRead,   // an RDMA READ, until its data are here
};

struct VerbsMeasurement {
  VerbsOperation operation = VerbsOperation::kEcho;
  uint32_t bytes = 64;  // of an operation, 1 to kBenchMaxBytes
  // Work requests that are posted together, with one completion for the last: one operation of the
  // load. 1 for an echo.
  uint32_t batch = 1;
  LoadOptions load;  // window times batch at most kBenchMaxWindow
};

// One connection to a VerbsServer. Every call on the worker's core.
class VerbsClient final : private VerbsConnection::User, private engine::Poller {
 public:
  using Done = absl::AnyInvocable<void(LoadResult)>;

  // `ready` is called once: when measurements may begin, or with why they cannot. Worker and
  // manager outlive the client. Errors as VerbsConnection::Connect.
  static absl::StatusOr<std::unique_ptr<VerbsClient>> Connect(
      engine::Worker* worker, cm::Manager* manager, const SocketAddress& server,
      absl::AnyInvocable<void(absl::Status)> ready);
  ~VerbsClient() override;

  // One at a time. `done` is called once, with what failed if anything did; not from inside. An
  // interrupt (tools/common/interrupt.h) ends it with Cancelled.
  void Measure(const VerbsMeasurement& measurement, Done done);
  // The measurement under way, if any, begins no more: its count is what it has done by then.
  void Stop();
  // DREQ. `done` when the connection is gone; a measurement under way fails first.
  void Disconnect(absl::AnyInvocable<void()> done);

 private:
  VerbsClient(engine::Worker* worker, absl::AnyInvocable<void(absl::Status)> ready)
      : worker_(worker), ready_(std::move(ready)) {}

  absl::Status OnReady() override;
  void OnEstablished(absl::Span<const uint8_t> private_data) override;
  void OnCompletion(const ibv_wc& wc) override;
  void OnEnded(const absl::Status& status) override;
  bool Poll(uint64_t now_ns) override;

  void Begin(uint32_t slot);
  absl::Status Post(uint32_t slot);
  absl::Status Receive();
  // Tells the measurement under way that nothing will end any more.
  void FailAll(const absl::Status& status);

  engine::Worker* worker_;
  absl::AnyInvocable<void(absl::Status)> ready_;
  absl::AnyInvocable<void()> gone_;
  const engine::Clock clock_;
  PeerHandshake server_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBenchMaxBytes);
  memory::MemoryRegion region_;
  VerbsMeasurement measurement_;
  std::unique_ptr<Load> load_;
  std::optional<LoadResult> result_;  // that is to be given away
  Done done_;
  std::deque<uint32_t> echoes_;        // slots whose answers are waited for, in order
  std::deque<uint32_t> posted_;        // slots whose completions are waited for, in order
  std::optional<absl::Status> ended_;  // why there is no connection any more
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_CLIENT_H_
