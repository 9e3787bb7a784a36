#include "rpcrdma/wire/header.h"

#include <algorithm>
#include <cstring>

#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

// Takes big-endian words off the front; after the first that is missing, `ok` is false and all
// words read as 0.
struct Reader {
  absl::Span<const uint8_t> bytes;
  size_t at = 0;
  bool ok = true;

  uint32_t Word() {
    if (bytes.size() - at < 4) {
      ok = false;
      return 0;
    }
    at += 4;
    return LoadBe32(&bytes[at - 4]);
  }
  // An optional-data marker: 1 or 0. RFC 4506 section 4.19
  bool Marker() {
    const uint32_t word = Word();
    if (word > 1) ok = false;
    return ok && word == 1;
  }
  Segment Target() {
    Segment segment;
    segment.handle = Word();
    segment.length = Word();
    segment.offset = static_cast<uint64_t>(Word()) << 32;
    segment.offset |= Word();
    if (segment.offset + segment.length < segment.offset) ok = false;
    return segment;
  }
};

bool ParseReadList(Reader& in, ChunkLists& lists) {
  while (in.Marker()) {
    if (lists.read_count == kMaxReadSegments) return false;
    ReadSegment& read = lists.reads[lists.read_count];
    read.position = in.Word();
    read.target = in.Target();
    // RFC 8166 section 3.4.5
    if (read.position % 4 != 0) return false;
    ++lists.read_count;
  }
  return in.ok;
}

bool ParseWriteChunk(Reader& in, ChunkLists& lists, WriteChunk& chunk) {
  const uint32_t count = in.Word();
  if (!in.ok || count > kMaxWriteSegments - lists.segment_count) return false;
  chunk = {lists.segment_count, static_cast<uint16_t>(count)};
  for (uint32_t i = 0; i < count && in.ok; ++i) {
    lists.segments[lists.segment_count++] = in.Target();
  }
  return in.ok;
}

bool ParseLists(Reader& in, ChunkLists& lists) {
  if (!ParseReadList(in, lists)) return false;
  while (in.Marker()) {
    if (lists.write_chunk_count == kMaxWriteChunks) return false;
    if (!ParseWriteChunk(in, lists, lists.write_chunks[lists.write_chunk_count])) return false;
    ++lists.write_chunk_count;
  }
  lists.has_reply = in.Marker();
  if (lists.has_reply && !ParseWriteChunk(in, lists, lists.reply)) return false;
  return in.ok;
}

bool ParseError(Reader& in, Header& header) {
  const uint32_t code = in.Word();
  header.error = static_cast<ErrorCode>(code);
  if (header.error == ErrorCode::kVersion) {
    header.version_low = in.Word();
    header.version_high = in.Word();
    return in.ok;
  }
  return in.ok && header.error == ErrorCode::kChunk;
}

// The shortest header of this procedure.
size_t MinBytes(uint32_t proc) {
  switch (static_cast<Proc>(proc)) {
    case Proc::kDone:
      return kFixedBytes;
    case Proc::kError:
      return kFixedBytes + 4;
    default:
      return kMinHeaderBytes;
  }
}

struct Writer {
  uint8_t* at;

  void Word(uint32_t word) {
    StoreBe32(at, word);
    at += 4;
  }
  void Target(const Segment& segment) {
    Word(segment.handle);
    Word(segment.length);
    Word(static_cast<uint32_t>(segment.offset >> 32));
    Word(static_cast<uint32_t>(segment.offset));
  }
  void Chunk(const ChunkLists& lists, const WriteChunk& chunk) {
    Word(chunk.count);
    for (const Segment& segment : lists.SegmentsOf(chunk)) Target(segment);
  }
};

void EmitLists(Writer& out, const ChunkLists& lists) {
  if (lists.empty()) {
    for (int list = 0; list < 3; ++list) out.Word(0);
    return;
  }
  for (const ReadSegment& read : lists.read_list()) {
    out.Word(1);
    out.Word(read.position);
    out.Target(read.target);
  }
  out.Word(0);
  for (size_t i = 0; i < lists.write_chunk_count; ++i) {
    out.Word(1);
    out.Chunk(lists, lists.write_chunks[i]);
  }
  out.Word(0);
  out.Word(lists.has_reply ? 1 : 0);
  if (lists.has_reply) out.Chunk(lists, lists.reply);
}

size_t ListBytes(const ChunkLists& lists) {
  size_t bytes = 12 + lists.read_count * kReadSegmentBytes;
  for (size_t i = 0; i < lists.write_chunk_count; ++i) {
    bytes += 8 + lists.write_chunks[i].count * kSegmentBytes;
  }
  if (lists.has_reply) bytes += 4 + lists.reply.count * kSegmentBytes;
  return bytes;
}

}  // namespace

uint64_t ChunkLists::BytesOf(const WriteChunk& chunk) const {
  uint64_t bytes = 0;
  for (const Segment& segment : SegmentsOf(chunk)) bytes += segment.length;
  return bytes;
}

uint32_t ChunkLists::OnlyHandle() const {
  if (read_count + segment_count == 0) return 0;
  const uint32_t only = read_count > 0 ? reads[0].target.handle : segments[0].handle;
  for (const ReadSegment& read : read_list()) {
    if (read.target.handle != only) return 0;
  }
  for (uint16_t i = 0; i < segment_count; ++i) {
    if (segments[i].handle != only) return 0;
  }
  return only;
}

bool ChunkLists::AddRead(uint32_t position, const Segment& segment) {
  if (read_count == kMaxReadSegments) return false;
  reads[read_count++] = {position, segment};
  return true;
}

bool ChunkLists::AddSegments(absl::Span<const Segment> chunk, WriteChunk* out) {
  if (chunk.size() > kMaxWriteSegments - segment_count) return false;
  *out = {segment_count, static_cast<uint16_t>(chunk.size())};
  std::copy(chunk.begin(), chunk.end(), segments.begin() + segment_count);
  segment_count = static_cast<uint16_t>(segment_count + chunk.size());
  return true;
}

bool ChunkLists::AddWriteChunk(absl::Span<const Segment> chunk) {
  if (write_chunk_count == kMaxWriteChunks) return false;
  if (!AddSegments(chunk, &write_chunks[write_chunk_count])) return false;
  ++write_chunk_count;
  return true;
}

bool ChunkLists::SetReply(absl::Span<const Segment> chunk) {
  if (has_reply || !AddSegments(chunk, &reply)) return false;
  has_reply = true;
  return true;
}

HeaderStatus ParseHeader(absl::Span<const uint8_t> message, Header* header, size_t* header_bytes) {
  *header_bytes = 0;
  header->chunks.Clear();
  if (IsPlainMessage(message)) {
    header->xid = LoadBe32(&message[0]);
    header->version = kVersion;
    header->credits = LoadBe32(&message[8]);
    header->proc = Proc::kMsg;
    *header_bytes = kMinHeaderBytes;
    return HeaderStatus::kOk;
  }
  // RFC 8166 section 4.5
  if (message.size() < kFixedBytes) return HeaderStatus::kTooShort;
  Reader in{message};
  header->xid = in.Word();
  header->version = in.Word();
  header->credits = in.Word();
  const uint32_t proc = in.Word();
  header->proc = static_cast<Proc>(proc);
  if (message.size() < MinBytes(proc)) return HeaderStatus::kTooShort;
  // RFC 8166 section 4.5.1
  if (header->version != kVersion) return HeaderStatus::kBadVersion;

  bool ok = false;
  switch (header->proc) {
    case Proc::kMsgp:
      header->align = in.Word();
      header->threshold = in.Word();
      [[fallthrough]];
    case Proc::kMsg:
      ok = ParseLists(in, header->chunks);
      break;
    case Proc::kNomsg:
      // RFC 8166 section 4.5.2: one list must hold the Payload stream.
      ok = ParseLists(in, header->chunks) && !header->chunks.empty();
      break;
    case Proc::kDone:
      ok = true;
      break;
    case Proc::kError:
      ok = ParseError(in, *header);
      break;
  }
  if (!ok) {
    header->chunks.Clear();
    return HeaderStatus::kMalformed;
  }
  *header_bytes = in.at;
  return HeaderStatus::kOk;
}

size_t HeaderBytes(const Header& header) {
  switch (header.proc) {
    case Proc::kMsgp:
      return kFixedBytes + 8 + ListBytes(header.chunks);
    case Proc::kMsg:
    case Proc::kNomsg:
      return kFixedBytes + ListBytes(header.chunks);
    case Proc::kError:
      return kFixedBytes + (header.error == ErrorCode::kVersion ? 12 : 4);
    case Proc::kDone:
      return kFixedBytes;
  }
  return 0;
}

size_t EmitHeader(const Header& header, absl::Span<uint8_t> out) {
  const size_t bytes = HeaderBytes(header);
  if (bytes == 0 || bytes > out.size()) return 0;
  Writer writer{out.data()};
  writer.Word(header.xid);
  writer.Word(header.version);
  writer.Word(header.credits);
  writer.Word(static_cast<uint32_t>(header.proc));
  switch (header.proc) {
    case Proc::kMsgp:
      writer.Word(header.align);
      writer.Word(header.threshold);
      [[fallthrough]];
    case Proc::kMsg:
    case Proc::kNomsg:
      EmitLists(writer, header.chunks);
      break;
    case Proc::kError:
      writer.Word(static_cast<uint32_t>(header.error));
      if (header.error == ErrorCode::kVersion) {
        writer.Word(header.version_low);
        writer.Word(header.version_high);
      }
      break;
    case Proc::kDone:
      break;
  }
  return bytes;
}

}  // namespace pollux::rpcrdma
