// Many reliable connections between two devices, each polled by its own thread.
#ifndef POLLUX_TESTS_BENCH_MANY_PAIRS_H_
#define POLLUX_TESTS_BENCH_MANY_PAIRS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "stack/engine/device.h"

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

  uint64_t retransmitted() const;

 private:
  struct End;
  ManyPairs();
  std::unique_ptr<End> a_, b_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_MANY_PAIRS_H_
