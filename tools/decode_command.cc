// pollux decode: capture files in words.
#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "tools/commands.h"
#include "tools/decode/capture_reader.h"
#include "tools/decode/decoder.h"
#include "tools/decode/text.h"
#include "tools/options.h"
#include "tools/report.h"

namespace pollux::tools {
namespace {

struct DecodeOptions {
  bool json = false;
  bool brief = false;
  decode::Decoder::Options decoder;
};

struct Totals {
  uint64_t frames = 0, roce = 0, failed = 0;
};

absl::Status DecodeFile(const std::string& path, const DecodeOptions& options, Totals* totals) {
  absl::StatusOr<decode::CaptureReader> reader = decode::CaptureReader::Open(path);
  if (!reader.ok()) return reader.status();
  decode::Decoder decoder(options.decoder);
  std::optional<uint64_t> first_ns;
  while (true) {
    const auto next = reader->Next();
    if (!next.ok()) return next.status();
    if (!next->has_value()) return absl::OkStatus();
    const decode::CapturedFrame& frame = **next;
    if (!first_ns) first_ns = frame.timestamp_ns;
    const decode::FrameTime time = {
        .number = frame.number,
        .ns = frame.timestamp_ns,
        .since_first = frame.timestamp_ns > *first_ns ? frame.timestamp_ns - *first_ns : 0};
    const decode::DecodedFrame decoded = decoder.Decode(frame.bytes, frame.original_bytes);
    ++totals->frames;
    totals->roce += decoded.roce ? 1 : 0;
    totals->failed += decoded.problem.empty() ? 0 : 1;
    std::string text =
        options.json ? decode::ToJsonLine(time, decoded) : decode::ToLine(time, decoded);
    if (!options.json && !options.brief && decoded.roce) text += decode::ToDetails(decoded);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

}  // namespace

int DecodeCommand(int argc, char** argv) {
  DecodeOptions decode;
  Options options(
      "decode [options] FILE...",
      "Prints the frames of capture files (pcap or pcapng, gzip or not): a line a frame,\n"
      "and under it the headers, CM messages, RFC 8797 private data and RPC-over-RDMA\n"
      "headers of RoCEv2 and RoCEv1 packets. Checks ICRCs. The exit status is 1 when a\n"
      "frame fails; its line ends with \"!!\" and the reason.");
  options.Switch("brief", "the lines only", &decode.brief);
  options.Switch("rpcrdma",
                 "every RC Send begins with an RPC-over-RDMA header; without\n"
                 "it, those of connections whose CM exchange is in the file",
                 &decode.decoder.rpcrdma);
  options.Switch("json", "one JSON object a frame instead", &decode.json);
  const auto operands = options.Parse(argc, argv, 1, SIZE_MAX);
  if (!operands.ok()) return Fail("decode", operands.status());
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  Totals totals;
  for (const std::string& path : *operands) {
    if (operands->size() > 1 && !decode.json) std::printf("%s\n", path.c_str());
    if (const absl::Status status = DecodeFile(path, decode, &totals); !status.ok()) {
      std::fprintf(stderr, "pollux decode: %s\n", std::string(status.message()).c_str());
      return kExitFailure;
    }
  }
  if (!decode.json) {
    std::printf("%s", absl::StrFormat("%u frames, %u RoCE, %u failed\n", totals.frames, totals.roce,
                                      totals.failed)
                          .c_str());
  }
  return totals.failed == 0 ? kExitOk : kExitFailure;
}

}  // namespace pollux::tools
