// pollux decode: capture files in words.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/decode/capture_reader.h"
#include "tools/decode/decoder.h"
#include "tools/decode/text.h"
#include "tools/pollux/commands.h"

namespace pollux::tools {
namespace {

struct DecodeOptions {
  bool json = false;
  bool brief = false;
  decode::Decoder::Options decoder;
};

struct Totals {
  uint64_t frames = 0, roce = 0, unchecked = 0, cut = 0, failed = 0;
};

// Errors: the file's, when what could be read of it is printed. `*written` is that of the output,
// after which nothing more is read.
absl::Status DecodeFile(const std::string& path, DecodeOptions options, Totals* totals,
                        absl::Status* written) {
  absl::StatusOr<decode::CaptureReader> reader = decode::CaptureReader::Open(path);
  if (!reader.ok()) return reader.status();
  options.decoder.link = reader->link();
  decode::Decoder decoder(options.decoder);
  std::optional<uint64_t> first_ns;
  while (written->ok()) {
    const auto next = reader->Next();
    if (!next.ok()) return next.status();
    if (!next->has_value()) break;
    const decode::CapturedFrame& frame = **next;
    if (!first_ns) first_ns = frame.timestamp_ns;
    const decode::FrameTime time = {
        .number = frame.number,
        .ns = frame.timestamp_ns,
        .since_first = frame.timestamp_ns > *first_ns ? frame.timestamp_ns - *first_ns : 0};
    const decode::DecodedFrame decoded = decoder.Decode(frame.bytes, frame.original_bytes);
    ++totals->frames;
    totals->roce += decoded.roce ? 1 : 0;
    totals->unchecked += decoded.unchecked.empty() ? 0 : 1;
    totals->cut += decoded.cut.empty() ? 0 : 1;
    totals->failed += decoded.problem.empty() ? 0 : 1;
    std::string text =
        options.json ? decode::ToJsonLine(time, decoded) : decode::ToLine(time, decoded);
    if (!options.json && !options.brief && decoded.roce) text += decode::ToDetails(decoded);
    *written = PrintOut(text);
  }
  return absl::OkStatus();
}

absl::Status PrintTotals(const Totals& totals, bool json) {
  if (json) {
    return PrintJson({{"totals",
                       {{"frames", totals.frames},
                        {"roce", totals.roce},
                        {"unchecked", totals.unchecked},
                        {"cut", totals.cut},
                        {"failed", totals.failed}}}});
  }
  return PrintOut(absl::StrFormat("%u frames, %u RoCE, %u unchecked, %u cut, %u failed\n",
                                  totals.frames, totals.roce, totals.unchecked, totals.cut,
                                  totals.failed));
}

}  // namespace

int DecodeCommand(int argc, char** argv) {
  DecodeOptions decode;
  Options options(
      "decode [options] FILE...",
      "Prints the frames of capture files (pcap or pcapng, gzip or not; - is standard\n"
      "input): one line per frame, followed by the headers, CM messages, RFC 8797 private\n"
      "data and RPC-over-RDMA headers of RoCEv2 and RoCEv1 packets. Checks ICRCs, except for\n"
      "frames truncated by a snap length (\"cut\" in the totals), and packets with IPv4\n"
      "options or IPv6 extension headers (\"unchecked\"). The line of a frame that fails ends\n"
      "with \"!!\" and the reason. The exit status is 1 if a frame fails or a file cannot be\n"
      "read.");
  options.Switch("brief", "only one line per frame", &decode.brief);
  options.Switch("rpcrdma",
                 "decode every RC SEND as RPC-over-RDMA (default: only on\n"
                 "connections whose CM exchange is in the file)",
                 &decode.decoder.rpcrdma);
  options.Switch("json", "one JSON object per frame instead of text, and one with the totals",
                 &decode.json);
  std::vector<std::string> paths;
  if (const auto done = ParseOperands("decode", options, argc, argv, 1, SIZE_MAX, &paths)) {
    return *done;
  }
  Totals totals;
  bool all_read = true;
  absl::Status written;
  for (const std::string& path : paths) {
    if (paths.size() > 1 && !decode.json) written = PrintOut(path + "\n");
    const absl::Status read = DecodeFile(path, decode, &totals, &written);
    if (!written.ok()) return Fail("decode", written);
    if (read.ok()) continue;
    all_read = false;
    Fail("decode", read);
  }
  if (written = PrintTotals(totals, decode.json); !written.ok()) return Fail("decode", written);
  return all_read && totals.failed == 0 ? kExitOk : kExitFailure;
}

}  // namespace pollux::tools
