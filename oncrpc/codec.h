// XDR for whole structures. Each structure lists its fields once, in the order of its
// specification; that list serves to encode and to decode. The bytes of DDP-eligible items stay out
// of the stream, as in oncrpc/xdr.h. Source: RFC 4506.
//
// A structure has a function
//     template <class Codec, class Self> static void Xdr(Codec& codec, Self& self);
// that calls codec(self.field, ...). A field is a uint32_t, uint64_t, bool, an enumeration with its
// own IsValid(), a std::optional, a structure, or one of the types below.
#ifndef POLLUX_ONCRPC_CODEC_H_
#define POLLUX_ONCRPC_CODEC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "oncrpc/call.h"
#include "oncrpc/xdr.h"

namespace pollux::oncrpc {

// void
struct Void {
  template <class Codec, class Self>
  static void Xdr(Codec&, Self&) {}
};

// string<kMax>. After decoding it points into the stream.
template <uint32_t kMax>
struct BoundedString {
  std::string_view text;
};

// opaque<kMax> that may be moved to a chunk. After decoding it points into the chunk or the stream.
template <uint32_t kMax>
struct EligibleOpaque {
  absl::Span<const uint8_t> bytes;
};

// opaque<kMax>, stored in the object.
template <uint32_t kMax>
struct InlineOpaque {
  std::array<uint8_t, kMax> bytes = {};
  uint32_t size = 0;

  // Returns nothing if there are more than kMax bytes.
  static std::optional<InlineOpaque> From(absl::Span<const uint8_t> from) {
    if (from.size() > kMax) return std::nullopt;
    InlineOpaque opaque;
    opaque.size = static_cast<uint32_t>(from.size());
    if (!from.empty()) std::memcpy(opaque.bytes.data(), from.data(), from.size());
    return opaque;
  }
  absl::Span<const uint8_t> span() const { return {bytes.data(), size}; }
  friend bool operator==(const InlineOpaque& a, const InlineOpaque& b) {
    return a.span() == b.span();
  }
};

// T items<kMax>
template <class T, uint32_t kMax>
struct BoundedArray {
  absl::InlinedVector<T, kMax> items;
};

// A list linked by optional data (RFC 4506 section 4.19) of at most kMax items.
template <class T, uint32_t kMax>
struct LinkedList {
  std::vector<T> items;
};

// The result of Encode(). Points into the buffer and the value given to it.
struct Encoded {
  // False if the buffer is too small or a field exceeds its limit; nothing may be sent then.
  bool ok = false;
  absl::Span<const uint8_t> stream;  // without the eligible item's bytes
  std::optional<EligibleItem> item;
};

class Encoder {
 public:
  explicit Encoder(absl::Span<uint8_t> out) : writer_(out) {}

  template <class... T>
  void operator()(const T&... fields) {
    (Put(fields), ...);
  }
  void Fail() { ok_ = false; }
  Encoded result() const {
    return {.ok = ok_ && writer_.ok(), .stream = writer_.bytes(), .item = item_};
  }

 private:
  void Put(uint32_t value) { writer_.Uint32(value); }
  void Put(uint64_t value) { writer_.Uint64(value); }
  void Put(bool value) { writer_.Bool(value); }
  template <class T>
  requires std::is_enum_v<T>
  void Put(T value) {
    if (!IsValid(value)) Fail();
    writer_.Uint32(static_cast<uint32_t>(value));
  }
  template <class T>
  requires std::is_class_v<T>
  void Put(const T& value) { T::Xdr(*this, value); }
  template <uint32_t kMax>
  void Put(const BoundedString<kMax>& string) {
    if (string.text.size() > kMax) Fail();
    writer_.String(string.text);
  }
  template <uint32_t kMax>
  void Put(const InlineOpaque<kMax>& opaque) {
    writer_.Opaque(opaque.span());
  }
  template <uint32_t kMax>
  void Put(const EligibleOpaque<kMax>& opaque) {
    static_assert(kMax % 4 == 0);
    if (opaque.bytes.size() > kMax) Fail();
    const size_t position = writer_.EligibleOpaque(opaque.bytes.size());
    item_ = EligibleItem{.bytes = opaque.bytes, .position = position};
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value.has_value()) Put(*value);
  }
  template <class T, uint32_t kMax>
  void Put(const BoundedArray<T, kMax>& array) {
    if (array.items.size() > kMax) Fail();
    Put(static_cast<uint32_t>(array.items.size()));
    for (const T& item : array.items) Put(item);
  }
  template <class T, uint32_t kMax>
  void Put(const LinkedList<T, kMax>& list) {
    if (list.items.size() > kMax) Fail();
    for (const T& item : list.items) {
      Put(true);
      Put(item);
    }
    Put(false);
  }

  XdrWriter writer_;
  std::optional<EligibleItem> item_;
  bool ok_ = true;
};

class Decoder {
 public:
  explicit Decoder(const XdrReader& reader) : reader_(reader) {}

  template <class... T>
  void operator()(T&... fields) {
    (Get(fields), ...);
  }
  void Fail() { reader_.Fail(); }
  // Whether the stream and the chunks held exactly the decoded fields.
  bool AtEnd() const { return reader_.AtEnd(); }

 private:
  void Get(uint32_t& value) { value = reader_.Uint32(); }
  void Get(uint64_t& value) { value = reader_.Uint64(); }
  void Get(bool& value) { value = reader_.Bool(); }
  template <class T>
  requires std::is_enum_v<T>
  void Get(T& value) {
    value = static_cast<T>(reader_.Uint32());
    if (!IsValid(value)) Fail();
  }
  template <class T>
  requires std::is_class_v<T>
  void Get(T& value) { T::Xdr(*this, value); }
  template <uint32_t kMax>
  void Get(BoundedString<kMax>& string) {
    string.text = reader_.String(kMax);
  }
  template <uint32_t kMax>
  void Get(InlineOpaque<kMax>& opaque) {
    opaque = *InlineOpaque<kMax>::From(reader_.Opaque(kMax));
  }
  template <uint32_t kMax>
  void Get(EligibleOpaque<kMax>& opaque) {
    opaque.bytes = reader_.EligibleOpaque(kMax);
  }
  template <class T>
  void Get(std::optional<T>& value) {
    value.reset();
    if (reader_.Bool()) Get(value.emplace());
  }
  template <class T, uint32_t kMax>
  void Get(BoundedArray<T, kMax>& array) {
    const uint32_t count = reader_.Uint32();
    if (count > kMax) Fail();
    array.items.clear();
    for (uint32_t i = 0; i < count && reader_.ok(); ++i) Get(array.items.emplace_back());
  }
  template <class T, uint32_t kMax>
  void Get(LinkedList<T, kMax>& list) {
    list.items.clear();
    while (reader_.Bool()) {
      if (list.items.size() == kMax) return Fail();
      Get(list.items.emplace_back());
    }
  }

  XdrReader reader_;
};

// Encodes `value` into the front of `out`. Both must outlive the result.
template <class T>
Encoded Encode(const T& value, absl::Span<uint8_t> out) {
  Encoder encoder(out);
  encoder(value);
  return encoder.result();
}

// Decodes `*value`. Returns whether `reader` held a T and nothing else. Views in `*value` point
// into the data of `reader`.
template <class T>
bool Decode(const XdrReader& reader, T* value) {
  Decoder decoder(reader);
  decoder(*value);
  return decoder.AtEnd();
}

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_CODEC_H_
