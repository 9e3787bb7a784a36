// XDR (RFC 4506) as handlers and callers of the native API need it: without copies, and with one
// DDP-eligible item that may have been moved out of the stream.
#ifndef POLLUX_RPCRDMA_XDR_H_
#define POLLUX_RPCRDMA_XDR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {

constexpr size_t XdrRoundUp(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

// An item that travelled in a chunk instead of the stream.
struct ReducedItem {
  absl::Span<const uint8_t> bytes;  // with or without its XDR pad
  // Where its first byte belongs, counted from the start of the stream; unknown for results.
  std::optional<size_t> position;
};

// Takes items off the front of a stream. After the first that does not fit, ok() is false and all
// further items are zero or empty. Views point into the stream or the chunk.
class XdrReader {
 public:
  explicit XdrReader(absl::Span<const uint8_t> bytes,
                     std::optional<ReducedItem> reduced = std::nullopt)
      : bytes_(bytes),
        has_reduced_(reduced.has_value()),
        reduced_(reduced.value_or(ReducedItem{})) {}

  bool ok() const { return ok_; }
  // Everything was taken, the reduced item too (an unused chunk holds none).
  bool AtEnd() const {
    return ok_ && at_ == bytes_.size() && (!has_reduced_ || reduced_.bytes.empty());
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
  // The item that the binding calls DDP-eligible: from its chunk when it was reduced, else from the
  // stream. The chunk may hold the item's pad or not. RFC 8166 section 3.4.5.2
  absl::Span<const uint8_t> EligibleOpaque(uint32_t max) {
    if (!has_reduced_) return Opaque(max);
    const uint32_t length = Uint32();
    const ReducedItem& item = reduced_;
    has_reduced_ = false;
    if (length > max || item.position.value_or(at_) != at_ || item.bytes.size() < length ||
        item.bytes.size() > XdrRoundUp(length)) {
      ok_ = false;
    }
    return ok_ ? item.bytes.first(length) : absl::Span<const uint8_t>();
  }

 private:
  const uint8_t* Take(size_t n) {
    if (!ok_ || bytes_.size() - at_ < n) {
      ok_ = false;
      return nullptr;
    }
    at_ += n;
    return bytes_.data() + at_ - n;
  }

  absl::Span<const uint8_t> bytes_;
  bool has_reduced_;
  ReducedItem reduced_;
  size_t at_ = 0;
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
  // the stream, as BulkArgument and BulkResult want it.
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

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_XDR_H_
