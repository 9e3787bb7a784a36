#include "tools/decode/rpcrdma_fields.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rpcrdma/wire/header.h"
#include "tools/decode/hex.h"
#include "tools/decode/names.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

Json SegmentFields(const rpcrdma::Segment& segment) {
  return {{"handle", Hex32(segment.handle)},
          {"length", segment.length},
          {"offset", Hex64(segment.offset)}};
}

Json ChunkFields(const rpcrdma::ChunkLists& lists, const rpcrdma::WriteChunk& chunk) {
  Json segments = Json::array();
  for (const rpcrdma::Segment& segment : lists.SegmentsOf(chunk)) {
    segments.push_back(SegmentFields(segment));
  }
  return segments;
}

// RFC 8166 section 4.3
void AddChunks(const rpcrdma::ChunkLists& lists, RpcHeaderText* text) {
  std::vector<std::string> words;
  Json reads = Json::array();
  uint64_t read_bytes = 0;
  for (const rpcrdma::ReadSegment& read : lists.read_list()) {
    Json segment = {{"position", read.position}};
    segment.update(SegmentFields(read.target));
    reads.push_back(std::move(segment));
    read_bytes += read.target.length;
  }
  text->fields["read_list"] = std::move(reads);
  if (lists.read_count > 0) {
    words.push_back(absl::StrFormat("reads %u (%u bytes)", lists.read_count, read_bytes));
  }
  Json writes = Json::array();
  uint64_t write_bytes = 0;
  for (size_t i = 0; i < lists.write_chunk_count; ++i) {
    writes.push_back(ChunkFields(lists, lists.write_chunks[i]));
    write_bytes += lists.BytesOf(lists.write_chunks[i]);
  }
  text->fields["write_list"] = std::move(writes);
  if (lists.write_chunk_count > 0) {
    words.push_back(
        absl::StrFormat("write chunks %u (%u bytes)", lists.write_chunk_count, write_bytes));
  }
  text->fields["reply_chunk"] = lists.has_reply ? ChunkFields(lists, lists.reply) : Json(nullptr);
  if (lists.has_reply) {
    words.push_back(absl::StrFormat("reply chunk (%u bytes)", lists.BytesOf(lists.reply)));
  }
  if (!words.empty()) absl::StrAppend(&text->summary, ", ", absl::StrJoin(words, ", "));
}

void AddError(const rpcrdma::Header& header, RpcHeaderText* text) {
  if (header.error == rpcrdma::ErrorCode::kVersion) {
    text->fields["error"] = "ERR_VERS";
    text->fields["version_low"] = header.version_low;
    text->fields["version_high"] = header.version_high;
    absl::StrAppendFormat(&text->summary, ", ERR_VERS %u to %u", header.version_low,
                          header.version_high);
  } else {
    text->fields["error"] = "ERR_CHUNK";
    absl::StrAppend(&text->summary, ", ERR_CHUNK");
  }
}

}  // namespace

RpcHeaderText DecodeRpcHeader(std::span<const uint8_t> message, bool continues) {
  RpcHeaderText text;
  // Some 4 KiB: not for the stack of whoever decodes many.
  const auto header = std::make_unique<rpcrdma::Header>();
  size_t header_bytes = 0;
  const auto status =
      rpcrdma::ParseHeader({message.data(), message.size()}, header.get(), &header_bytes);
  if (status == rpcrdma::HeaderStatus::kTooShort) {
    text.summary = "RPC-over-RDMA";
    if (!continues) text.problem = "RPC-over-RDMA: too short for a header";
    return text;
  }
  const std::string procedure = RpcProcedureName(static_cast<uint32_t>(header->proc));
  text.summary =
      absl::StrFormat("%s XID 0x%08x, credits %u", procedure, header->xid, header->credits);
  text.fields["xid"] = Hex32(header->xid);
  text.fields["version"] = header->version;
  text.fields["credits"] = header->credits;
  text.fields["procedure"] = procedure;
  if (status == rpcrdma::HeaderStatus::kBadVersion) {
    text.problem = absl::StrCat("RPC-over-RDMA: version ", header->version, ", not 1");
    return text;
  }
  if (status == rpcrdma::HeaderStatus::kMalformed) {
    if (continues) {
      text.fields["note"] = "the header continues beyond the captured bytes";
    } else {
      text.problem = "RPC-over-RDMA: the header after its fixed fields cannot be decoded";
    }
    return text;
  }
  switch (header->proc) {
    case rpcrdma::Proc::kError:
      AddError(*header, &text);
      break;
    case rpcrdma::Proc::kDone:
      break;
    case rpcrdma::Proc::kMsgp:
      text.fields["align"] = header->align;
      text.fields["threshold"] = header->threshold;
      [[fallthrough]];
    case rpcrdma::Proc::kMsg:
    case rpcrdma::Proc::kNomsg:
      AddChunks(header->chunks, &text);
  }
  text.fields["header_bytes"] = header_bytes;
  return text;
}

}  // namespace pollux::decode
