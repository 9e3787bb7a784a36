// XDR (RFC 4506) as handlers and callers of the native API need it: without copies, and with
// DDP-eligible items that may have been moved out of the stream.
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

// An item that travelled in a chunk instead of the stream.
struct ReducedItem {
  absl::Span<const uint8_t> bytes;  // with or without its XDR pad
  // Of an argument: where its first byte belongs, counted from the start of the unreduced stream.
  // Results have none: the first eligible result is in the first Write chunk, and so on.
  std::optional<size_t> position;
  // Of a result: its Write chunk was empty, so that it stayed in the stream. RFC 8166 section
  // 4.3.2.3
  bool in_stream = false;
};

// Takes items off the front of a stream. After the first that does not fit, ok() is false and all
// further items are zero or empty. Views point into the stream or the chunk.
class XdrReader {
 public:
  // `reduced`: arguments by their position, or results in the order of their Write chunks.
  explicit XdrReader(absl::Span<const uint8_t> bytes, absl::Span<const ReducedItem> reduced = {})
      : bytes_(bytes), reduced_(reduced) {}

  bool ok() const { return ok_; }
  // Everything was taken, the reduced items too (an unused chunk holds none).
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
  // An item that the binding calls DDP-eligible: from its chunk when it was reduced, else from the
  // stream. The chunk may hold the item's pad or not. RFC 8166 section 3.4.5.2
  absl::Span<const uint8_t> EligibleOpaque(uint32_t max) {
    if (reduced_.empty() || reduced_.front().in_stream || IsBefore(reduced_.front())) {
      if (!reduced_.empty() && reduced_.front().in_stream) reduced_.remove_prefix(1);
      return Opaque(max);
    }
    const uint32_t length = Uint32();
    // RFC 8166 section 6.1: what was not reduced although a chunk was there for it is a violation.
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
  // Where the reader stands in the stream as it was before its items were moved.
  size_t unreduced() const { return at_ + moved_; }
  // Whether the eligible item that comes next, after its length word, stands before `item`.
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
  absl::Span<const ReducedItem> reduced_;  // not taken yet
  size_t at_ = 0;
  size_t moved_ = 0;  // bytes of the reduced items taken, with their pads
  bool ok_ = true;
};

// Appends items to a stream of bounded size. After the first that does not fit, ok() is false.
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
  // The length word alone of an eligible item of `length` bytes; returns where the item belongs in
  // the stream, as EligibleItem and ResultItem want it.
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
