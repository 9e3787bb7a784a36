#include "tests/conformance/report.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stack/wire/ext_headers.h"
#include "tools/decode/capture_reader.h"
#include "tools/decode/link_layer.h"
#include "tools/decode/names.h"

namespace pollux::conformance {
namespace {

std::string MadName(uint16_t attribute) {
  return std::string(cm::AttributeName(static_cast<cm::Attribute>(attribute)));
}

template <typename Key, typename NameOf>
void AppendTable(std::string_view title, const char* key_format, const std::map<Key, uint64_t>& map,
                 NameOf name_of, std::string* out) {
  if (map.empty()) return;
  absl::StrAppendFormat(out, "\n%-42s %10s\n", title, "packets");
  const auto format = absl::ParsedFormat<'x'>::New(key_format);
  for (const auto& [key, count] : map) {
    absl::StrAppendFormat(out, "  %-32s %7s %10d\n", name_of(key), absl::StrFormat(*format, key),
                          count);
  }
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ToJson(const FileReport& report) {
  std::vector<std::string> counts;
  for (const auto& [key, count] : KeyedCounts(report.counts)) {
    counts.push_back(absl::StrCat(Quoted(key), ": ", count));
  }
  std::vector<std::string> failures;
  for (const Failure& failure : report.failures) {
    failures.push_back(
        absl::StrCat("{\"frame\": ", failure.frame, ", \"reason\": ", Quoted(failure.reason), "}"));
  }
  return absl::StrCat("{\"path\": ", Quoted(report.path),
                      ", \"ok\": ", report.ok() ? "true" : "false", ", \"counts\": {",
                      absl::StrJoin(counts, ", "), "}, \"failures\": [",
                      absl::StrJoin(failures, ", "), "]}");
}

}  // namespace

FileReport CheckFile(const std::string& path) {
  FileReport report;
  report.path = path;
  auto reader = decode::CaptureReader::Open(path);
  if (!reader.ok()) {
    report.failures.push_back({0, std::string(reader.status().message())});
    return report;
  }
  Checker checker;
  while (true) {
    const auto next = reader->Next();
    if (!next.ok()) {
      report.failures.push_back({0, std::string(next.status().message())});
      break;
    }
    if (!next->has_value()) break;
    const decode::CapturedFrame& frame = **next;
    std::vector<uint8_t> ethernet;
    if (reader->link() != decode::LinkType::kEthernet) {
      ethernet = decode::ToEthernet(reader->link(), frame.bytes);
    }
    std::string failure =
        checker.Check(reader->link() == decode::LinkType::kEthernet ? frame.bytes : ethernet);
    if (!failure.empty() && frame.original_bytes > frame.bytes.size()) {
      failure = absl::StrCat("the capture kept ", frame.bytes.size(), " of ", frame.original_bytes,
                             " bytes (snap length): ", failure);
    }
    if (!failure.empty()) report.failures.push_back({frame.number, std::move(failure)});
  }
  report.counts = checker.counts();
  return report;
}

bool AllPass(const std::vector<FileReport>& reports) {
  uint64_t checked = 0;
  for (const FileReport& report : reports) {
    if (!report.ok()) return false;
    checked += report.counts.roce + report.counts.rocev1;
  }
  return checked > 0;
}

std::map<std::string, uint64_t> KeyedCounts(const Counts& counts) {
  std::map<std::string, uint64_t> keyed;
  keyed["frames"] = counts.frames;
  if (counts.roce != 0) keyed["roce"] = counts.roce;
  if (counts.rocev1 != 0) keyed["rocev1"] = counts.rocev1;
  for (const auto& [key, n] : counts.opcodes) keyed[absl::StrFormat("opcode.0x%02x", key)] = n;
  for (const auto& [key, n] : counts.syndromes) keyed[absl::StrFormat("aeth.0x%02x", key)] = n;
  for (const auto& [key, n] : counts.mads) keyed[absl::StrFormat("mad.0x%04x", key)] = n;
  for (const auto& [key, n] : counts.rpcs) keyed[absl::StrFormat("rpc.%d", key)] = n;
  return keyed;
}

std::string ToTable(const std::vector<FileReport>& reports) {
  std::string out;
  Counts total;
  absl::StrAppendFormat(&out, "%8s %8s %8s  %s\n", "frames", "RoCE", "failed", "file");
  for (const FileReport& report : reports) {
    absl::StrAppendFormat(&out, "%8d %8d %8d  %s\n", report.counts.frames, report.counts.roce,
                          report.failures.size(), report.path);
    total.Add(report.counts);
  }
  AppendTable("opcode", "0x%02x", total.opcodes, decode::OpcodeName, &out);
  AppendTable("AETH syndrome", "0x%02x", total.syndromes, wire::SyndromeName, &out);
  AppendTable("CM MAD", "0x%04x", total.mads, MadName, &out);
  AppendTable("RPC-over-RDMA", "%x", total.rpcs, decode::RpcProcedureName, &out);
  if (total.rocev1 != 0) {
    absl::StrAppendFormat(&out, "\n%-42s %10d\n", "RoCEv1 (ICRC verified only)", total.rocev1);
  }
  for (const FileReport& report : reports) {
    for (const Failure& failure : report.failures) {
      // A failure of the whole file names it already.
      out += failure.frame == 0 ? absl::StrFormat("\nFAILED %s", failure.reason)
                                : absl::StrFormat("\nFAILED %s: frame %d: %s", report.path,
                                                  failure.frame, failure.reason);
    }
  }
  if (AllPass(reports)) {
    out += "\nevery RoCE frame passes";
  } else if (total.roce + total.rocev1 == 0) {
    out += "\nFAILED: there is no RoCE frame to check; is it a capture of the right interface?";
  }
  out += "\n\n";
  return out;
}

std::string ToJson(const std::vector<FileReport>& reports) {
  const bool ok = AllPass(reports);
  return absl::StrCat(
      "{\"ok\": ", ok ? "true" : "false", ", \"files\": [",
      absl::StrJoin(reports, ", ",
                    [](std::string* out, const FileReport& r) { *out += ToJson(r); }),
      "]}\n");
}

}  // namespace pollux::conformance
