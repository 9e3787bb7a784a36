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

// Connections that are all active: messages go round them, so that each is as cold as it can be
// when its turn comes. The receiving end has a shared receive queue, as servers of many have.
class ManyPairs {
 public:
  // `count` connections. The devices are not owned and not polled by anyone else.
  static absl::StatusOr<std::unique_ptr<ManyPairs>> Connect(engine::Device* a, engine::Device* b,
                                                            uint32_t count);
  ~ManyPairs();

  // SENDs of `bytes` a second from a to b, `window` under way in all, in turns of `burst` posted to
  // one connection at a time; each burst completes with its last. Before the first measurement each
  // connection carries one, so that none pays for what is done once.
  double SendsPerSecond(uint32_t bytes, uint64_t count, uint32_t window, uint32_t burst);

  // RDMA WRITEs of 1 MiB, four under way, on the first connection, and on each other one a SEND of
  // `bytes`, again and again, from a to b; or one of the two alone. Until `count` SENDs have
  // completed, of WRITEs alone so many. The first round is not counted.
  enum class Mix : uint8_t { kSmall, kBulk, kBoth };
  struct Mixed {
    tools::Histogram latency_ns;       // of SENDs, from the posting to the completion
    double bulk_bytes_per_second = 0;  // of whole WRITEs
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
