// Messages from the peer of one connection that were refused or discarded.
#ifndef POLLUX_RPCRDMA_CONNECTION_REFUSALS_H_
#define POLLUX_RPCRDMA_CONNECTION_REFUSALS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "rpcrdma/connection/counters.h"
#include "rpcrdma/connection/refusal_log.h"
#include "stack/base/socket_address.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

// Each has a counter and a text for the log.
enum class Refusal : uint8_t {
  kShortMessage,
  kObsolete,
  // By a Responder
  kUnwantedError,
  kVersion,
  kBadCall,
  kIneligible,
  kNotServed,
  kReplyTooLarge,
  kReplyGone,
  kUnreachableMemory,
  kStalled,
  // By a Requester
  kBadReplyHeader,
  kUnknownXid,
  kBadReplyChunks,
  kBadRpcReply,
  kBadInvalidation,
};
inline constexpr size_t kRefusals = static_cast<size_t>(Refusal::kBadInvalidation) + 1;

// Belongs to a connection; used on its core.
class Refusals {
 public:
  // The delay from the first refusal of a kind to its log line, which also gives the number of
  // those that followed meanwhile.
  static constexpr uint64_t kDelayNs = 1'000'000'000;

  // `worker` must outlive this object.
  explicit Refusals(engine::Worker* worker) : worker_(worker), timer_(&Refusals::OnTimer, this) {}
  ~Refusals() { Tell(); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // Writes one line for each kind to `log`, which must outlive this object. Without this call,
  // refusals are only counted.
  void ReportTo(RefusalLog* log, const SocketAddress& peer) {
    log_ = log;
    peer_ = peer;
  }
  // Counts a refusal here and in `counters`. Called on the packet path, so the log line is written
  // later.
  void Count(Refusal what, Counters* counters);
  // Writes the pending lines now, for the end of the connection.
  void Tell();

 private:
  static void OnTimer(void* refusals, uint64_t /*now_ns*/) {
    static_cast<Refusals*>(refusals)->Tell();
  }

  engine::Worker* worker_;
  RefusalLog* log_ = nullptr;
  SocketAddress peer_;
  std::array<uint64_t, kRefusals> counts_{};
  uint32_t untold_ = 0;  // one bit for each kind with a pending line
  engine::Timer timer_;
};
static_assert(kRefusals <= 32);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_REFUSALS_H_
