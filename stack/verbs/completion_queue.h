// A completion queue: a bounded ring of ibv_wc.
#ifndef POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_
#define POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

namespace pollux::verbs {

// Owned by one worker; pushed and polled there only.
class CompletionQueue {
 public:
  static constexpr uint32_t kMaxEntries = 1u << 17;  // eight times the deepest queue pair

  explicit CompletionQueue(uint32_t entries);

  // Appends. False when full: the completion is lost and the queue is in overrun for good.
  bool Push(const ibv_wc& wc);
  // Takes up to `n` completions, oldest first; returns how many.
  int Poll(int n, ibv_wc* wc);

  bool overrun() const { return overrun_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t capacity() const { return capacity_; }

  uint32_t use_count = 0;  // queue pairs that hold it

 private:
  uint32_t capacity_;
  uint32_t mask_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  bool overrun_ = false;
  std::unique_ptr<ibv_wc[]> ring_;
};

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_COMPLETION_QUEUE_H_
