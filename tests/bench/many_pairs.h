// Many reliable connections between two devices, each polled by its own thread.
#ifndef POLLUX_TESTS_BENCH_MANY_PAIRS_H_
#define POLLUX_TESTS_BENCH_MANY_PAIRS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"
#include "tools/histogram.h"

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
  // one connection at a time; each burst completes with its last.
  double SendsPerSecond(uint32_t bytes, uint64_t count, uint32_t window, uint32_t burst);

  // The first connection is left to bulk: with `bulk`, RDMA WRITEs of 1 MiB, four under way. On
  // each other one SEND of `bytes` is under way from a to b, again and again, until `count` have
  // completed. Records how long each took from its posting to its completion.
  void LatenciesBesideBulk(uint32_t bytes, uint64_t count, bool bulk, tools::Histogram* latency_ns);

  uint64_t retransmitted() const;

 private:
  struct End;
  struct Receiver;
  struct Mixer;
  ManyPairs();
  // Polls both, each on its core, until `finished`.
  void RunBoth(engine::Poller& a, engine::Poller& b, const std::atomic<bool>& finished);
  std::unique_ptr<End> a_, b_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_MANY_PAIRS_H_
