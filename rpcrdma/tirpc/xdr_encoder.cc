#include "rpcrdma/tirpc/xdr_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "oncrpc/xdr.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma::tirpc {

const XDR::xdr_ops XdrEncoder::kOperations = {GetLong,     PutLong, GetBytes, PutBytes, GetPosition,
                                              SetPosition, Inline,  Destroy,  Control};

XdrEncoder::XdrEncoder() {
  xdr_.x_op = XDR_ENCODE;
  xdr_.x_ops = &kOperations;
  xdr_.x_private = this;
}

void XdrEncoder::Reset(size_t max_bytes) {
  at_ = 0;
  max_bytes_ = max_bytes;
  fields_ = nullptr;
  items_.clear();
  pad_ = 0;
  after_word_ = false;
}

void XdrEncoder::Watch(const ItemFields* fields, const void* structure) {
  fields_ = structure == nullptr ? nullptr : fields;
  structure_ = static_cast<const char*>(structure);
}

uint8_t* XdrEncoder::Take(size_t count) {
  if (count > max_bytes_ || at_ > max_bytes_ - count) return nullptr;
  const size_t end = at_ + count;
  if (end > buffer_.size()) {
    buffer_.resize(std::min(std::max({end, 2 * buffer_.size(), size_t{1024}}), max_bytes_));
  }
  return &buffer_[std::exchange(at_, end)];
}

// xdr_bytes() puts the length and then the bytes that the field points to. A field of a union's
// other arm may hold anything, which is compared and not followed.
bool XdrEncoder::IsItem(const char* bytes, u_int count) {
  if (fields_ == nullptr || !after_word_ || word_ != count) return false;
  for (field_ = items_.size(); field_ < fields_->offsets.size(); ++field_) {
    const char* pointer = nullptr;
    std::memcpy(&pointer, structure_ + fields_->offsets[field_], sizeof pointer);
    if (pointer == bytes) return true;
  }
  return false;
}

bool XdrEncoder::TakeItem(const char* bytes, u_int count) {
  if (count > fields_->max_bytes) return false;
  // Those that stand before it and were not met are empty.
  while (items_.size() < field_) items_.push_back({.bytes = {}, .position = at_});
  items_.push_back({.bytes = {reinterpret_cast<const uint8_t*>(bytes), count}, .position = at_});
  pad_ = oncrpc::XdrRoundUp(count) - count;
  return true;
}

bool_t XdrEncoder::GetLong(XDR* /*xdr*/, long* /*value*/) { return FALSE; }

bool_t XdrEncoder::PutLong(XDR* xdr, const long* value) {
  XdrEncoder& self = Of(xdr);
  uint8_t* const to = self.Take(sizeof(uint32_t));
  if (to == nullptr) return FALSE;
  self.word_ = static_cast<uint32_t>(*value);
  self.after_word_ = true;
  self.pad_ = 0;
  StoreBe32(to, self.word_);
  return TRUE;
}

bool_t XdrEncoder::GetBytes(XDR* /*xdr*/, char* /*bytes*/, u_int /*count*/) { return FALSE; }

bool_t XdrEncoder::PutBytes(XDR* xdr, const char* bytes, u_int count) {
  XdrEncoder& self = Of(xdr);
  // RFC 8166 section 3.4.5.2: an item's pad goes where the item goes.
  if (std::exchange(self.pad_, 0) == count && count > 0) return TRUE;
  const bool is_item = self.IsItem(bytes, count);
  self.after_word_ = false;
  if (is_item) return self.TakeItem(bytes, count) ? TRUE : FALSE;
  if (count == 0) return TRUE;
  uint8_t* const to = self.Take(count);
  if (to == nullptr) return FALSE;
  std::memcpy(to, bytes, count);
  return TRUE;
}

u_int XdrEncoder::GetPosition(XDR* xdr) { return static_cast<u_int>(Of(xdr).at_); }

bool_t XdrEncoder::SetPosition(XDR* xdr, u_int position) {
  XdrEncoder& self = Of(xdr);
  if (!self.items_.empty() || position > self.max_bytes_) return FALSE;
  self.after_word_ = false;
  self.at_ = 0;
  return position == 0 || self.Take(position) != nullptr ? TRUE : FALSE;
}

int32_t* XdrEncoder::Inline(XDR* xdr, u_int count) {
  XdrEncoder& self = Of(xdr);
  if (count == 0 || count % BYTES_PER_XDR_UNIT != 0 || self.at_ % BYTES_PER_XDR_UNIT != 0) {
    return nullptr;
  }
  self.after_word_ = false;
  self.pad_ = 0;
  return reinterpret_cast<int32_t*>(self.Take(count));
}

void XdrEncoder::Destroy(XDR* /*xdr*/) {}

bool_t XdrEncoder::Control(XDR* /*xdr*/, int /*request*/, void* /*info*/) { return FALSE; }

}  // namespace pollux::rpcrdma::tirpc
