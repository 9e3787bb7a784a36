// A stream of work requests from one end of a reliable connection to the other.
#ifndef POLLUX_TESTS_BENCH_STREAM_H_
#define POLLUX_TESTS_BENCH_STREAM_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "tests/bench/timed_run.h"
#include "tests/bench/verbs_end.h"

namespace pollux::bench {

struct StreamOptions {
  ibv_wr_opcode opcode = IBV_WR_SEND;  // or RDMA_WRITE, RDMA_READ
  uint32_t bytes = 0;                  // per message
  uint64_t count = 0;                  // total number of messages, a multiple of `every`
  uint32_t window = 1;                 // outstanding messages
  uint32_t every = 1;                  // messages per completion
};

// Runs on the core of its end.
class StreamSender : public TimedPoller {
 public:
  StreamSender(VerbsEnd& own, const VerbsPeer& peer, const StreamOptions& options)
      : end_(own), peer_(peer), options_(options) {}
  bool Poll(uint64_t /*now_ns*/) override {
    Begin();
    ibv_wc wc[32];
    const int n = end_.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      Check(wc[i]);
      done_ += options_.every;
    }
    if (done_ >= options_.count) Finish();
    bool posted = false;
    while (sent_ < options_.count && sent_ - done_ < options_.window) {
      end_.Post(options_.opcode, options_.bytes, peer_, ++sent_ % options_.every == 0);
      posted = true;
    }
    return posted || n > 0;
  }
  // Messages per second, after it has finished.
  double PerSecond() const { return TimedPoller::PerSecond(options_.count); }

 private:
  VerbsEnd& end_;
  const VerbsPeer peer_;
  const StreamOptions options_;
  uint64_t sent_ = 0, done_ = 0;
};

// The other end: posts a new receive for each used one.
class StreamReceiver : public engine::Poller {
 public:
  explicit StreamReceiver(VerbsEnd& own) : end_(own) {}
  bool Poll(uint64_t /*now_ns*/) override {
    ibv_wc wc[32];
    const int n = end_.cq->Poll(32, wc);
    for (int i = 0; i < n; ++i) {
      Check(wc[i]);
      end_.Receive();
    }
    return n > 0;
  }

 private:
  VerbsEnd& end_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_STREAM_H_
