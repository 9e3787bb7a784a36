#include "compat/verbs/work_request_chain.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pollux::compat {

// Of pages that nobody touches before they are used.
void WorkRequestChain::Reserve(const ibv_qp_cap& cap) {
  static_assert(alignof(verbs::FlushWorkRequest) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ &&
                sizeof(verbs::FlushWorkRequest) % alignof(ibv_sge) == 0);
  const size_t requests = cap.max_send_wr;
  cap_ = cap;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(BytesOf(cap));
  requests_ = reinterpret_cast<verbs::FlushWorkRequest*>(memory_.get());
  elements_ = reinterpret_cast<ibv_sge*>(requests_ + requests);
  inline_data_ = reinterpret_cast<uint8_t*>(elements_ + requests * cap.max_send_sge);
}

verbs::FlushWorkRequest* WorkRequestChain::Begin() {
  if (count_ >= cap_.max_send_wr) Fail(ENOMEM);
  if (error_ != 0) return nullptr;
  verbs::FlushWorkRequest& request = requests_[count_];
  request = verbs::FlushWorkRequest{};
  request.sg_list = &elements_[size_t{count_} * cap_.max_send_sge];
  if (count_ > 0) requests_[count_ - 1].next = &request;
  ++count_;
  return &request;
}

ibv_send_wr* WorkRequestChain::Last() {
  if (count_ == 0) Fail(EINVAL);
  return error_ != 0 ? nullptr : &requests_[count_ - 1];
}

void WorkRequestChain::SetInline(const ibv_data_buf* data, size_t count) {
  ibv_send_wr* const request = Last();
  if (request == nullptr) return;
  uint8_t* const own = &inline_data_[size_t{count_ - 1} * cap_.max_inline_data];
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    // An address is not to be believed for more.
    if (data[i].length > cap_.max_inline_data - bytes) return Fail(EINVAL);
    if (data[i].length > 0) std::memcpy(own + bytes, data[i].addr, data[i].length);
    bytes += data[i].length;
  }
  request->send_flags |= IBV_SEND_INLINE;
  request->num_sge = 1;
  request->sg_list[0] = {
      .addr = reinterpret_cast<uintptr_t>(own), .length = static_cast<uint32_t>(bytes), .lkey = 0};
}

void WorkRequestChain::SetElements(const ibv_sge* elements, size_t count) {
  ibv_send_wr* const request = Last();
  if (request == nullptr) return;
  if (count > cap_.max_send_sge) return Fail(EINVAL);
  std::copy_n(elements, count, request->sg_list);
  request->num_sge = static_cast<int>(count);
  request->send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
}

}  // namespace pollux::compat
