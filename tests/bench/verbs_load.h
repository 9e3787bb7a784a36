// Pollux's own verbs between two devices, each polled by its own thread.
#ifndef POLLUX_TESTS_BENCH_VERBS_LOAD_H_
#define POLLUX_TESTS_BENCH_VERBS_LOAD_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "tests/bench/timed_run.h"
#include "tests/bench/verbs_end.h"
#include "tools/common/histogram.h"

namespace pollux::bench {

// A reliable connection between two devices. Measurements run one after another.
class VerbsPair {
 public:
  // The devices are not owned, and nothing else may poll them. Two threads run on the caller's CPUs
  // from number `first_cpu` on, as in RunOnTwoCores().
  static absl::StatusOr<std::unique_ptr<VerbsPair>> Connect(engine::Device* a, engine::Device* b,
                                                            Threads threads = Threads::kTwo,
                                                            unsigned first_cpu = 0);
  ~VerbsPair();

  // The mean round trip time in ns of SENDs of `bytes` that are answered by SENDs. If `each_ns` is
  // given, adds every round trip except the first to it; this reads the clock once more per round
  // trip.
  double SendRoundTripNs(uint32_t bytes, uint64_t rounds, tools::Histogram* each_ns = nullptr);
  // Work requests per second from a to b, with `window` posted at once: SEND, RDMA_WRITE or
  // RDMA_READ.
  double PerSecond(ibv_wr_opcode opcode, uint32_t bytes, uint64_t count, uint32_t window);

  // Whether neither end has anything outstanding, as between measurements.
  bool idle() const { return a_->idle() && b_->idle(); }
  uint64_t retransmitted() const;

 private:
  VerbsPair(Threads threads, unsigned first_cpu);
  void Run(TimedPoller& near, engine::Poller& far);
  const Threads threads_;
  const unsigned first_cpu_;
  std::unique_ptr<VerbsEnd> a_, b_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_VERBS_LOAD_H_
