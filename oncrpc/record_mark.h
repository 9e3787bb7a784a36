// The mark before each fragment of a record on a stream. Source: RFC 5531 section 11.
#ifndef POLLUX_ONCRPC_RECORD_MARK_H_
#define POLLUX_ONCRPC_RECORD_MARK_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/base/byte_order.h"

namespace pollux::oncrpc {

inline constexpr size_t kRecordMarkBytes = 4;

struct RecordMark {
  size_t fragment_bytes = 0;  // at most 2^31 - 1
  bool last = true;           // this fragment ends the record
};

// `bytes` has kRecordMarkBytes.
inline RecordMark ParseRecordMark(const uint8_t* bytes) {
  const uint32_t word = LoadBe32(bytes);
  return {.fragment_bytes = word & 0x7FFFFFFF, .last = word >> 31 != 0};
}

inline std::array<uint8_t, kRecordMarkBytes> EmitRecordMark(const RecordMark& mark) {
  std::array<uint8_t, kRecordMarkBytes> bytes;
  StoreBe32(bytes.data(), static_cast<uint32_t>(mark.fragment_bytes) | (mark.last ? 1u << 31 : 0));
  return bytes;
}

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_RECORD_MARK_H_
