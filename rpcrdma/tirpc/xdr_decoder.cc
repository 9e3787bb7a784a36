#include "rpcrdma/tirpc/xdr_decoder.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "stack/base/byte_order.h"

namespace pollux::rpcrdma::tirpc {

const XDR::xdr_ops XdrDecoder::kOperations = {GetLong,     PutLong, GetBytes, PutBytes, GetPosition,
                                              SetPosition, Inline,  Destroy,  Control};

XdrDecoder::XdrDecoder() {
  xdr_.x_op = XDR_DECODE;
  xdr_.x_ops = &kOperations;
  xdr_.x_private = this;
}

void XdrDecoder::Reset(absl::Span<const uint8_t> bytes) {
  bytes_ = bytes;
  at_ = moved_ = next_ = pad_ = 0;
  fields_ = nullptr;
  items_ = {};
  was_null_.clear();
  adopted_.clear();
  copied_bytes_ = 0;
  after_word_ = false;
}

void XdrDecoder::Watch(const ItemFields* fields, void* structure,
                       absl::Span<const oncrpc::ReducedItem> items) {
  items_ = items;
  if (structure == nullptr) return;
  fields_ = fields;
  structure_ = static_cast<char*>(structure);
  for (size_t i = 0; i < fields->offsets.size(); ++i) {
    was_null_.push_back(*FieldAt(i) == nullptr);
  }
}

char** XdrDecoder::FieldAt(size_t field) const {
  return reinterpret_cast<char**>(structure_ + fields_->offsets[field]);
}

const uint8_t* XdrDecoder::Take(size_t count) {
  if (bytes_.size() - at_ < count) return nullptr;
  return bytes_.data() + std::exchange(at_, at_ + count);
}

// xdr_bytes() gets the length, has the field point to memory, and gets the bytes there. A field of
// a union's other arm may hold anything, which is compared and not followed.
size_t XdrDecoder::FieldOf(const char* bytes, u_int count) const {
  if (fields_ == nullptr || !after_word_ || word_ != count || count == 0) return kNone;
  for (size_t i = 0; i < fields_->offsets.size(); ++i) {
    if (*FieldAt(i) == bytes) return i;
  }
  return kNone;
}

size_t XdrDecoder::ItemOf(size_t field) const {
  if (next_ < items_.size() && items_[next_].position.has_value()) {
    return *items_[next_].position == at_ + moved_ ? next_ : kNone;
  }
  // Only an empty Write chunk leaves its item in the stream. RFC 8166 section 6.1: of what is there
  // although a chunk was to take it nothing is taken, as the chunk holds too little.
  const bool placed =
      field < items_.size() && !items_[field].position.has_value() && !items_[field].in_stream;
  return placed ? field : kNone;
}

bool XdrDecoder::TakeItem(size_t item, size_t field, char* bytes, u_int count) {
  const oncrpc::ReducedItem& source = items_[item];
  // RFC 8166 section 6.1: what the binding does not call eligible must not be reduced. A chunk may
  // hold the item's pad or not: section 3.4.5.2.
  if (field == kNone || count > fields_->max_bytes || source.bytes.size() < count ||
      source.bytes.size() > oncrpc::XdrRoundUp(count)) {
    return false;
  }
  if (source.position.has_value()) ++next_;
  pad_ = oncrpc::XdrRoundUp(count) - count;
  moved_ += oncrpc::XdrRoundUp(count);
  if (!was_null_[field]) {
    std::memcpy(bytes, source.bytes.data(), count);
    copied_bytes_ += count;
    return true;
  }
  was_null_[field] = false;
  std::free(bytes);
  char** const pointer = FieldAt(field);
  *pointer = reinterpret_cast<char*>(const_cast<uint8_t*>(source.bytes.data()));
  adopted_.push_back({pointer, item});
  return true;
}

bool_t XdrDecoder::GetLong(XDR* xdr, long* value) {
  XdrDecoder& self = Of(xdr);
  const uint8_t* const from = self.Take(sizeof(uint32_t));
  if (from == nullptr) return FALSE;
  self.word_ = LoadBe32(from);
  self.after_word_ = true;
  self.pad_ = 0;
  *value = static_cast<long>(self.word_);
  return TRUE;
}

bool_t XdrDecoder::PutLong(XDR* /*xdr*/, const long* /*value*/) { return FALSE; }

bool_t XdrDecoder::GetBytes(XDR* xdr, char* bytes, u_int count) {
  XdrDecoder& self = Of(xdr);
  if (count == 0) return TRUE;
  if (std::exchange(self.pad_, 0) == count) {
    std::memset(bytes, 0, count);
    return TRUE;
  }
  const size_t field = self.FieldOf(bytes, count);
  const size_t item = self.ItemOf(field);
  self.after_word_ = false;
  if (item != kNone) return self.TakeItem(item, field, bytes, count) ? TRUE : FALSE;
  const uint8_t* const from = self.Take(count);
  if (from == nullptr) return FALSE;
  std::memcpy(bytes, from, count);
  return TRUE;
}

bool_t XdrDecoder::PutBytes(XDR* /*xdr*/, const char* /*bytes*/, u_int /*count*/) { return FALSE; }

u_int XdrDecoder::GetPosition(XDR* xdr) { return static_cast<u_int>(Of(xdr).at_); }

bool_t XdrDecoder::SetPosition(XDR* xdr, u_int position) {
  XdrDecoder& self = Of(xdr);
  if (self.moved_ > 0 || position > self.bytes_.size()) return FALSE;
  self.after_word_ = false;
  self.at_ = position;
  return TRUE;
}

int32_t* XdrDecoder::Inline(XDR* xdr, u_int count) {
  XdrDecoder& self = Of(xdr);
  const uint8_t* const here = self.bytes_.data() + self.at_;
  const bool aligned = reinterpret_cast<uintptr_t>(here) % alignof(int32_t) == 0;
  if (count == 0 || count % BYTES_PER_XDR_UNIT != 0 || !aligned) return nullptr;
  self.after_word_ = false;
  self.pad_ = 0;
  return reinterpret_cast<int32_t*>(const_cast<uint8_t*>(self.Take(count)));
}

void XdrDecoder::Destroy(XDR* /*xdr*/) {}

bool_t XdrDecoder::Control(XDR* /*xdr*/, int /*request*/, void* /*info*/) { return FALSE; }

}  // namespace pollux::rpcrdma::tirpc
