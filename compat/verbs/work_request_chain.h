// Work requests that a program builds one by one between ibv_wr_start(3) and ibv_wr_complete(3),
// and posts together.
#ifndef POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_
#define POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compat/process/critical_section.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::compat {

// One per queue pair. Its memory is allocated at creation and has the capacity of the send queue,
// so building requests does not use the heap. An invalid request makes the whole chain invalid.
class WorkRequestChain {
 public:
  // The heap memory that Reserve() allocates.
  static constexpr size_t BytesOf(const ibv_qp_cap& cap) {
    return cap.max_send_wr * (sizeof(verbs::FlushWorkRequest) + cap.max_send_sge * sizeof(ibv_sge) +
                              cap.max_inline_data);
  }
  // Call it once, before any other function.
  void Reserve(const ibv_qp_cap& cap);

  // Starts an empty chain, which belongs to the calling thread until End(); other threads wait.
  void Start() {
    section_.Enter();
    count_ = 0;
    error_ = 0;
  }
  // Discards the requests.
  void End() {
    count_ = 0;
    error_ = 0;
    section_.Leave();
  }

  // Appends a request, which may be a FLUSH. Returns null after an error, for example if the chain
  // is full.
  verbs::FlushWorkRequest* Begin();
  // The request that is being built. Null after an error, for example if there is none.
  ibv_send_wr* Last();
  // Set the data of the last request, in order. They replace data set before.
  void SetInline(const ibv_data_buf* data, size_t count);
  void SetElements(const ibv_sge* elements, size_t count);

  int error() const { return error_; }  // the first error
  // The first request, linked to the others; null if there is none.
  ibv_send_wr* first() { return count_ == 0 ? nullptr : requests_; }

 private:
  void Fail(int error) {
    if (error_ == 0) error_ = error;
  }

  CriticalSection section_;
  ibv_qp_cap cap_{};
  std::unique_ptr<std::byte[]> memory_;  // for the three arrays below, in this order
  verbs::FlushWorkRequest* requests_ = nullptr;
  ibv_sge* elements_ = nullptr;     // max_send_sge for each request
  uint8_t* inline_data_ = nullptr;  // max_inline_data for each request
  uint32_t count_ = 0;
  int error_ = 0;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_WORK_REQUEST_CHAIN_H_
