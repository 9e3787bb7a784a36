// The RPC-over-RDMA version 1 transport header: fixed fields, chunk lists, errors. Source: RFC 8166
// section 4.
#ifndef POLLUX_RPCRDMA_WIRE_HEADER_H_
#define POLLUX_RPCRDMA_WIRE_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {

inline constexpr uint32_t kVersion = 1;  // RFC 8166 section 4.2.2

// Limits on the chunk lists of one message; a message beyond them is treated as malformed
// (ERR_CHUNK). A peer that registers each page of 4 KiB separately has 257 segments for 1 MiB that
// begins inside a page, if its messages may be that long; 15 are left for other chunks.
inline constexpr size_t kMaxReadSegments = 272;
inline constexpr size_t kMaxWriteChunks = 16;
inline constexpr size_t kMaxWriteSegments = 272;  // all Write chunks and the Reply chunk together

inline constexpr size_t kXidAt = 0;
inline constexpr size_t kVersionAt = 4;
inline constexpr size_t kCreditsAt = 8;
inline constexpr size_t kProcAt = 12;
inline constexpr size_t kFixedBytes = 16;      // XID, version, credits, procedure
inline constexpr size_t kMinHeaderBytes = 28;  // with three empty lists
inline constexpr size_t kSegmentBytes = 16;
inline constexpr size_t kReadSegmentBytes = 4 + 4 + kSegmentBytes;  // marker, position, segment

// RFC 8166 section 4.2.4
enum class Proc : uint32_t { kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4 };
// RFC 8166 section 4.1.2, rpc_rdma_errcode
enum class ErrorCode : uint32_t { kVersion = 1, kChunk = 2 };

// A range of the Requester's memory. Source: RFC 8166 section 3.4.3.
struct Segment {
  uint32_t handle = 0;
  uint32_t length = 0;  // bytes
  uint64_t offset = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct ReadSegment {
  uint32_t position = 0;  // in bytes from the start of the unreduced Payload stream
  Segment target;
  friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
};

// A counted array of segments, from index `first` of ChunkLists::segments. An empty Write chunk (no
// segments) differs from an absent one.
struct WriteChunk {
  uint16_t first = 0;
  uint16_t count = 0;
};

// The Read list, the Write list and the Reply chunk. Uses no heap; only elements below the counts
// are valid.
struct ChunkLists {
  uint16_t read_count = 0;
  uint16_t write_chunk_count = 0;
  uint16_t segment_count = 0;  // used elements of `segments`
  bool has_reply = false;
  WriteChunk reply;
  std::array<WriteChunk, kMaxWriteChunks> write_chunks;
  std::array<ReadSegment, kMaxReadSegments> reads;
  std::array<Segment, kMaxWriteSegments> segments;

  bool empty() const { return read_count == 0 && write_chunk_count == 0 && !has_reply; }
  absl::Span<const ReadSegment> read_list() const { return {reads.data(), read_count}; }
  absl::Span<const Segment> SegmentsOf(const WriteChunk& chunk) const {
    return {segments.data() + chunk.first, chunk.count};
  }
  absl::Span<Segment> SegmentsOf(const WriteChunk& chunk) {
    return {segments.data() + chunk.first, chunk.count};
  }
  // The handle that all segments share; 0 if there is none or more than one.
  uint32_t OnlyHandle() const;
  // The total length of a chunk's segments, in bytes.
  uint64_t BytesOf(const WriteChunk& chunk) const;

  // Append; return false, without any change, if a limit is reached.
  bool AddRead(uint32_t position, const Segment& segment);
  bool AddWriteChunk(absl::Span<const Segment> chunk);
  bool SetReply(absl::Span<const Segment> chunk);
  void Clear() {
    read_count = write_chunk_count = segment_count = 0;
    has_reply = false;
  }

 private:
  bool AddSegments(absl::Span<const Segment> chunk, WriteChunk* out);
};

struct Header {
  uint32_t xid = 0;
  uint32_t version = kVersion;
  uint32_t credits = 0;  // requested in a call, granted in a reply
  Proc proc = Proc::kMsg;
  // Only for kMsgp:
  uint32_t align = 0;
  uint32_t threshold = 0;
  // Only for kError:
  ErrorCode error = ErrorCode::kChunk;
  uint32_t version_low = kVersion;  // for ErrorCode::kVersion
  uint32_t version_high = kVersion;
  // Only for kMsg, kNomsg and kMsgp:
  ChunkLists chunks;
};

enum class HeaderStatus : uint8_t {
  kOk,
  kTooShort,    // even the XID is unreliable: discard. RFC 8166 section 4.5
  kBadVersion,  // only xid, version, credits and proc are valid. RFC 8166 section 4.5.1
  kMalformed,   // only the fixed fields are valid. RFC 8166 section 4.5.2
};

// A received transport header, parsed once for all that use it.
struct ReceivedHeader {
  HeaderStatus status = HeaderStatus::kOk;
  size_t bytes = 0;  // the offset of the Payload stream
  Header header;
};

// Whether the message is an RDMA_MSG without chunks, as most are.
inline bool IsPlainMessage(absl::Span<const uint8_t> message) {
  static_assert(Proc::kMsg == Proc{} && kMinHeaderBytes == kProcAt + 16);
  if (message.size() < kMinHeaderBytes || LoadBe32(message.data() + kVersionAt) != kVersion)
    return false;
  uint64_t zeroes[2];  // the procedure and three empty lists
  std::memcpy(zeroes, message.data() + kProcAt, sizeof zeroes);
  return (zeroes[0] | zeroes[1]) == 0;
}

// Decodes the header at the start of `message`; `*header_bytes` becomes the offset of the Payload
// stream. Rejects segments that wrap around the address space, Read positions that are not a
// multiple of four, and lists beyond the limits above. Never reads beyond `message`.
HeaderStatus ParseHeader(absl::Span<const uint8_t> message, Header* header, size_t* header_bytes);

// The number of bytes that EmitHeader() will write.
size_t HeaderBytes(const Header& header);

// Writes the header at the start of `out`. Returns its length in bytes, or 0 if it does not fit.
size_t EmitHeader(const Header& header, absl::Span<uint8_t> out);

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_WIRE_HEADER_H_
