#include "tools/decode/text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr int kMargin = 8;

std::string Plain(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    return text.empty() ? "-" : text;
  }
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "none";
  return value.dump();
}

bool IsPlain(const Json& value) { return !value.is_structured() || value.empty(); }

void Append(const std::string& name, const Json& value, int margin, std::string* out) {
  out->append(static_cast<size_t>(margin), ' ');
  absl::StrAppend(out, name, ":");
  if (value.is_object()) {
    const char* between = " ";
    for (const auto& [key, field] : value.items()) {
      if (!IsPlain(field)) continue;
      absl::StrAppend(out, between, key, " ", field.is_array() ? "none" : Plain(field));
      between = ", ";
    }
    *out += '\n';
    for (const auto& [key, field] : value.items()) {
      if (!IsPlain(field)) Append(key, field, margin + 2, out);
    }
  } else if (value.is_array()) {
    *out += '\n';
    size_t i = 0;
    for (const Json& element : value) Append(absl::StrCat(i++), element, margin + 2, out);
  } else {
    absl::StrAppend(out, " ", Plain(value), "\n");
  }
}

}  // namespace

std::string ToLine(const FrameTime& time, const DecodedFrame& frame) {
  return absl::StrFormat(
      "%6u %5u.%09u  %s > %s  %s%s%s%s%s\n", time.number, time.since_first / kNanosecondsPerSecond,
      time.since_first % kNanosecondsPerSecond, frame.source, frame.destination, frame.summary,
      frame.unchecked.empty() ? "" : absl::StrCat("  (", frame.unchecked, ")"),
      frame.cut.empty() ? "" : absl::StrCat("  (", frame.cut, ")"),
      frame.problem.empty() ? "" : "  !! ", frame.problem);
}

std::string ToDetails(const DecodedFrame& frame) {
  std::string out;
  for (const auto& [name, value] : frame.fields.items()) Append(name, value, kMargin, &out);
  return out;
}

std::string ToJsonLine(const FrameTime& time, const DecodedFrame& frame) {
  Json json = {{"frame", time.number}, {"time_ns", time.ns}, {"ok", frame.problem.empty()}};
  if (!frame.problem.empty()) json["problem"] = frame.problem;
  if (!frame.unchecked.empty()) json["unchecked"] = frame.unchecked;
  if (!frame.cut.empty()) json["cut"] = frame.cut;
  json["roce"] = frame.roce;
  json["source"] = frame.source;
  json["destination"] = frame.destination;
  json["summary"] = frame.summary;
  json.update(frame.fields);
  return absl::StrCat(json.dump(), "\n");
}

}  // namespace pollux::decode
