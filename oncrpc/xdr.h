// XDR (RFC 4506) for handlers and callers of the native API. It makes no copies and handles
// DDP-eligible items that were moved out of the stream.
#ifndef POLLUX_ONCRPC_XDR_H_
#define POLLUX_ONCRPC_XDR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "stack/base/byte_order.h"

namespace pollux::oncrpc {

constexpr size_t XdrRoundUp(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

// An item that was transferred in a chunk instead of the stream.
struct ReducedItem {
  absl::Span<const uint8_t> bytes;  // with or without its XDR pad
  // For an argument: the offset of its first byte in the unreduced stream. Results have none: the
  // first eligible result is in the first Write chunk, and so on.
  std::optional<size_t> position;
  // True for a result that stayed in the stream, so that its Write chunk was returned empty. RFC
  // 8166 section 4.3.2.3
  bool in_stream = false;
};

// Reads items from the front of a stream. After the first one that does not fit, ok() is false and
// all further items are zero or empty. Views point into the stream or the chunk, which must outlive
// them.
class XdrReader {
 public:
  // `reduced` holds arguments ordered by position, or results in the order of their Write chunks.
  // Neither span is copied.
  explicit XdrReader(absl::Span<const uint8_t> bytes, absl::Span<const ReducedItem> reduced = {})
      : bytes_(bytes), reduced_(reduced) {}

  bool ok() const { return ok_; }
  // Whether everything was read without an error, including the reduced items. An unused chunk
  // counts as empty.
  bool AtEnd() const {
    for (const ReducedItem& item : reduced_) {
      if (!item.bytes.empty()) return false;
    }
    return ok_ && at_ == bytes_.size();
  }
  void Fail() { ok_ = false; }

  uint32_t Uint32() {
    const uint8_t* p = Take(4);
    return p == nullptr ? 0 : LoadBe32(p);
  }
  uint64_t Uint64() {
    const uint8_t* p = Take(8);
    return p == nullptr ? 0 : LoadBe64(p);
  }
  bool Bool() {
    const uint32_t word = Uint32();
    if (word > 1) ok_ = false;
    return ok_ && word == 1;
  }
  // Variable-length opaque data of at most `max` bytes.
  absl::Span<const uint8_t> Opaque(uint32_t max) {
    const uint32_t length = Uint32();
    if (length > max) ok_ = false;
    const uint8_t* p = ok_ ? Take(XdrRoundUp(length)) : nullptr;
    return p == nullptr ? absl::Span<const uint8_t>() : absl::Span<const uint8_t>(p, length);
  }
  std::string_view String(uint32_t max) {
    const absl::Span<const uint8_t> bytes = Opaque(max);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads an item that the binding declares DDP-eligible, from its chunk if it was reduced,
  // otherwise from the stream. A chunk may or may not include the XDR pad. RFC 8166 section 3.4.5.2
  absl::Span<const uint8_t> EligibleOpaque(uint32_t max) {
    if (reduced_.empty() || reduced_.front().in_stream || IsBefore(reduced_.front())) {
      if (!reduced_.empty() && reduced_.front().in_stream) reduced_.remove_prefix(1);
      return Opaque(max);
    }
    const uint32_t length = Uint32();
    // RFC 8166 section 6.1: an item that stays in the stream although it has a chunk is a
    // violation.
    const ReducedItem& item = reduced_.front();
    reduced_.remove_prefix(1);
    if (length > max || item.position.value_or(unreduced()) != unreduced() ||
        item.bytes.size() < length || item.bytes.size() > XdrRoundUp(length)) {
      ok_ = false;
    }
    if (!ok_) return {};
    moved_ += XdrRoundUp(length);
    return item.bytes.first(length);
  }

 private:
  // The position in the stream as it was before items were moved out.
  size_t unreduced() const { return at_ + moved_; }
  // Whether the next eligible item, after its length word, comes before `item`.
  bool IsBefore(const ReducedItem& item) const {
    return item.position.has_value() && unreduced() + 4 < *item.position;
  }
  const uint8_t* Take(size_t n) {
    if (!ok_ || bytes_.size() - at_ < n) {
      ok_ = false;
      return nullptr;
    }
    at_ += n;
    return bytes_.data() + at_ - n;
  }

  absl::Span<const uint8_t> bytes_;
  absl::Span<const ReducedItem> reduced_;  // those not yet read
  size_t at_ = 0;
  size_t moved_ = 0;  // bytes of the reduced items read so far, with their pads
  bool ok_ = true;
};

// Appends items to a stream of limited size. After the first one that does not fit, ok() is false.
// Writes into `out`, which is not owned.
class XdrWriter {
 public:
  explicit XdrWriter(absl::Span<uint8_t> out) : out_(out) {}

  bool ok() const { return ok_; }
  size_t size() const { return at_; }
  absl::Span<const uint8_t> bytes() const { return out_.first(at_); }

  void Uint32(uint32_t value) {
    if (uint8_t* p = Take(4)) StoreBe32(p, value);
  }
  void Uint64(uint64_t value) {
    if (uint8_t* p = Take(8)) StoreBe64(p, value);
  }
  void Bool(bool value) { Uint32(value ? 1 : 0); }
  void FixedOpaque(absl::Span<const uint8_t> bytes) {
    const size_t padded = XdrRoundUp(bytes.size());
    uint8_t* p = Take(padded);
    if (p == nullptr) return;
    if (!bytes.empty()) std::memcpy(p, bytes.data(), bytes.size());
    std::memset(p + bytes.size(), 0, padded - bytes.size());
  }
  void Opaque(absl::Span<const uint8_t> bytes) {
    Uint32(static_cast<uint32_t>(bytes.size()));
    FixedOpaque(bytes);
  }
  void String(std::string_view text) {
    Opaque({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  // Writes only the length word of an eligible item of `length` bytes. Returns the item's position
  // in the stream, for EligibleItem and ResultItem.
  size_t EligibleOpaque(size_t length) {
    Uint32(static_cast<uint32_t>(length));
    return at_;
  }

 private:
  uint8_t* Take(size_t n) {
    if (!ok_ || out_.size() - at_ < n) {
      ok_ = false;
      return nullptr;
    }
    at_ += n;
    return out_.data() + at_ - n;
  }

  absl::Span<uint8_t> out_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_XDR_H_
