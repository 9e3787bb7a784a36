// Work requests that a program builds one after the other and posts together: between
// ibv_wr_start(3) and ibv_wr_complete(3).
#ifndef POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_
#define POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compat/process/critical_section.h"

namespace pollux::compat {

// One of a queue pair. Has room for as much as the send queue has, from when it is made: building
// takes nothing from the heap. What is wrong with a request is wrong with the whole chain.
class WorkRequestChain {
 public:
  // What Reserve() takes from the heap.
  static constexpr size_t BytesOf(const ibv_qp_cap& cap) {
    return cap.max_send_wr *
           (sizeof(ibv_send_wr) + cap.max_send_sge * sizeof(ibv_sge) + cap.max_inline_data);
  }
  // Once, before anything else.
  void Reserve(const ibv_qp_cap& cap);

  // It is the calling thread's, and empty, until End(): other threads wait.
  void Start() {
    section_.Enter();
    count_ = 0;
    error_ = 0;
  }
  // What is in it is forgotten.
  void End() {
    count_ = 0;
    error_ = 0;
    section_.Leave();
  }

  // Appends one; null after an error, as when there is no room.
  ibv_send_wr* Begin();
  // The one that is being built; null after an error, as when there is none.
  ibv_send_wr* Last();
  // What the last one sends, in order, and instead of what it was given before.
  void SetInline(const ibv_data_buf* data, size_t count);
  void SetElements(const ibv_sge* elements, size_t count);

  int error() const { return error_; }  // the first
  // The first of them, linked to the others; null when there is none.
  ibv_send_wr* first() { return count_ == 0 ? nullptr : requests_; }

 private:
  void Fail(int error) {
    if (error_ == 0) error_ = error;
  }

  CriticalSection section_;
  ibv_qp_cap cap_{};
  std::unique_ptr<std::byte[]> memory_;  // of all that follows, in this order
  ibv_send_wr* requests_ = nullptr;
  ibv_sge* elements_ = nullptr;     // for each request as many as it may have
  uint8_t* inline_data_ = nullptr;  // likewise
  uint32_t count_ = 0;
  int error_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_
