// Many reliable connections between two devices, each polled by its own thread.
#ifndef POLLUX_TESTS_BENCH_MANY_PAIRS_H_
#define POLLUX_TESTS_BENCH_MANY_PAIRS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "tests/bench/timed_run.h"
#include "tools/common/histogram.h"

namespace pollux::bench {

// Connections that are all active: messages use them in turn, so that the state of each is out of
// the cache when its turn comes. The receiving end has a shared receive queue, as servers with many
// connections have.
class ManyPairs {
 public:
  // Makes `count` connections. The devices are not owned, and nothing else may poll them.
  static absl::StatusOr<std::unique_ptr<ManyPairs>> Connect(engine::Device* a, engine::Device* b,
                                                            uint32_t count);
  ~ManyPairs();

  // SENDs of `bytes` per second from a to b, with `window` outstanding in total. `burst` SENDs at a
  // time are posted to one connection, with one completion for the last of them. Before the first
  // measurement each connection carries one message, so that one-time costs are not measured.
  double SendsPerSecond(uint32_t bytes, uint64_t count, uint32_t window, uint32_t burst);

  // Runs RDMA WRITEs of 1 MiB, four outstanding, on the first connection, and one SEND of `bytes`
  // at a time on each other connection, all from a to b; or only one of the two kinds. Ends after
  // `count` SENDs, or, without SENDs, after `count` WRITEs. The first round is not counted.
  enum class Mix : uint8_t { kSmall, kBulk, kBoth };
  struct Mixed {
    tools::Histogram latency_ns;       // of SENDs, from post to completion
    double bulk_bytes_per_second = 0;  // of completed WRITEs
  };
  void RunMix(Mix mix, uint32_t bytes, uint64_t count, Mixed* mixed);

  uint64_t retransmitted() const;

 private:
  struct End;
  struct Receiver;
  struct Sender;
  struct Mixer;
  ManyPairs();
  void Run(TimedPoller& near);
  std::unique_ptr<End> a_, b_;
  bool warm_ = false;  // each connection has carried a message
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_MANY_PAIRS_H_
