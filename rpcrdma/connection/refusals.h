// What was refused or discarded of what the peer of one connection sent.
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

// Each has its counter, and its words for the log.
enum class Refusal : uint8_t {
  kShortMessage,
  kObsolete,
  // Of a Responder
  kUnwantedError,
  kVersion,
  kBadCall,
  kIneligible,
  kNotServed,
  kReplyTooLarge,
  kReplyGone,
  kUnreachableMemory,
  kStalled,
  // Of a Requester
  kBadReplyHeader,
  kUnknownXid,
  kBadReplyChunks,
  kBadRpcReply,
  kBadInvalidation,
};
inline constexpr size_t kRefusals = static_cast<size_t>(Refusal::kBadInvalidation) + 1;

// Belongs to the connection, and to its core.
class Refusals {
 public:
  // From the first of a kind to its line, which has the number of those that came meanwhile too.
  static constexpr uint64_t kDelayNs = 1'000'000'000;

  // `worker` outlives it.
  explicit Refusals(engine::Worker* worker) : worker_(worker), timer_(&Refusals::OnTimer, this) {}
  ~Refusals() { Tell(); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // `log`, which outlives this, is told once of each kind. Else they are counted alone.
  void ReportTo(RefusalLog* log, const SocketAddress& peer) {
    log_ = log;
    peer_ = peer;
  }
  // One more, in `counters` too. Of the packet path: what is written, is written later.
  void Count(Refusal what, Counters* counters);
  // What is still to be written: when the connection ends.
  void Tell();

 private:
  static void OnTimer(void* refusals, uint64_t /*now_ns*/) {
    static_cast<Refusals*>(refusals)->Tell();
  }

  engine::Worker* worker_;
  RefusalLog* log_ = nullptr;
  SocketAddress peer_;
  std::array<uint64_t, kRefusals> counts_{};
  uint32_t untold_ = 0;  // a bit for each kind
  engine::Timer timer_;
};
static_assert(kRefusals <= 32);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_REFUSALS_H_
