// The client of verbs measurements.
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
  kEcho,   // a SEND, until the server's application has answered it by a SEND
  kSend,   // a SEND, until it is acknowledged
  kWrite,  // an RDMA WRITE, until it is acknowledged
  kRead,   // an RDMA READ, until its data have arrived
};

struct VerbsMeasurement {
  VerbsOperation operation = VerbsOperation::kEcho;
  uint32_t bytes = 64;  // per operation, 1 to kBenchMaxBytes
  // The work requests of one operation of the load, which are posted together; only the last has a
  // completion. 1 for kEcho.
  uint32_t batch = 1;
  LoadOptions load;  // window * batch must not exceed kBenchMaxWindow
};

// One connection to a VerbsServer. All functions must be called on the worker's core.
class VerbsClient final : private VerbsConnection::User, private engine::Poller {
 public:
  using Done = absl::AnyInvocable<void(LoadResult)>;

  // `ready` is called once, with OK when measurements may begin, or with an error. Worker and
  // manager must outlive the client. Errors as VerbsConnection::Connect().
  static absl::StatusOr<std::unique_ptr<VerbsClient>> Connect(
      engine::Worker* worker, cm::Manager* manager, const SocketAddress& server,
      absl::AnyInvocable<void(absl::Status)> ready);
  ~VerbsClient() override;

  // Starts a measurement; one at a time. `done` is called once, not during this call; its result
  // contains the first error. An interrupt (tools/common/interrupt.h) ends the measurement with
  // Cancelled.
  void Measure(const VerbsMeasurement& measurement, Done done);
  // Makes the current measurement, if any, start no more operations. Its result counts those that
  // have ended by now.
  void Stop();
  // Sends a DREQ. `done` is called when the connection is gone; before that, the current
  // measurement fails.
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
  // Ends all outstanding operations of the current measurement with an error.
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
  std::optional<LoadResult> result_;  // to be passed to `done_`
  Done done_;
  std::deque<uint32_t> echoes_;        // slots that wait for their echo, in order
  std::deque<uint32_t> posted_;        // slots that wait for their completion, in order
  std::optional<absl::Status> ended_;  // why the connection has ended
  std::unique_ptr<VerbsConnection> connection_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_CLIENT_H_
