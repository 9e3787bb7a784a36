#include "tools/common/report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tools/common/interrupt.h"
#include "tools/common/log_format.h"
#include "tools/common/options.h"

namespace pollux::tools {

std::string Rate(double bytes_per_second) {
  return absl::StrFormat("%.3f GB/s", bytes_per_second * 1e-9);
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 10'240) return absl::StrFormat("%u B", bytes);
  if (bytes < (10u << 20)) return absl::StrFormat("%.1f KiB", static_cast<double>(bytes) / 1024);
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string Microseconds(uint64_t ns) {
  return absl::StrFormat("%.2f us", static_cast<double>(ns) * 1e-3);
}

std::string Grouped(uint64_t number) {
  std::string reversed;
  int digits = 0;
  do {
    if (digits > 0 && digits % 3 == 0) reversed += ',';
    reversed += static_cast<char>('0' + number % 10);
    number /= 10;
    ++digits;
  } while (number != 0);
  return {reversed.rbegin(), reversed.rend()};
}

std::string Table(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  std::string table;
  for (const auto& [name, value] : rows) {
    absl::StrAppend(&table, "  ", name, std::string(width - name.size() + 2, ' '), value, "\n");
  }
  return table;
}

absl::Status PrintOut(const std::string& text) {
  // By write(), since stdio drops what it could not write when a signal came.
  bool written = std::fflush(stdout) == 0;
  const bool was_interrupted = Interrupted();
  for (size_t done = 0; written && done < text.size();) {
    const ssize_t size = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (size < 0 && errno != EINTR) {
      written = false;
    } else {
      // A signal while the reader of a pipe does not read ends a write short.
      done += static_cast<size_t>(std::max<ssize_t>(size, 0));
      if (done < text.size() && Interrupted() && !was_interrupted) {
        return absl::CancelledError("interrupted");
      }
    }
  }
  if (written) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("writing the result: ", std::strerror(errno)));
}

absl::Status PrintJson(const nlohmann::ordered_json& json) {
  return PrintOut(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                  "\n");
}

nlohmann::ordered_json LatencyJson(const Histogram& latency_ns) {
  const auto us = [&](double fraction) {
    return static_cast<double>(latency_ns.Percentile(fraction)) * 1e-3;
  };
  return {{"p50", us(0.5)}, {"p99", us(0.99)}, {"p999", us(0.999)}, {"max", us(1)}};
}

void AddCongestion(const transport::Counters& counters, nlohmann::ordered_json* json) {
  (*json)["rp_cnp_handled"] = counters.rp_cnp_handled;
  (*json)["rp_cnp_ignored"] = counters.rp_cnp_ignored;
  (*json)["np_cnp_sent"] = counters.np_cnp_sent;
  (*json)["np_ecn_marked_roce_packets"] = counters.np_ecn_marked_roce_packets;
}

std::string Printable(const std::string& name) {
  using Json = nlohmann::ordered_json;
  const std::string quoted = Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

std::string ReplaceInvalidUtf8(const std::string& text) {
  using Json = nlohmann::ordered_json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

std::string ShellQuoted(const std::string& text) {
  // What no shell takes for anything else.
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("%+,-./:=@_").find(c) != absl::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::optional<int> ParseOperands(const std::string& command, Options& options, int argc,
                                 char** argv, size_t least, size_t most,
                                 std::vector<std::string>* operands) {
  auto parsed = options.Parse(argc, argv, least, most);
  if (!parsed.ok()) return Fail(command, parsed.status());
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  *operands = *std::move(parsed);
  return std::nullopt;
}

int Finish(const std::string& command, bool as_json, absl::Status status,
           const nlohmann::ordered_json& json, const std::string& text) {
  if (as_json) {
    nlohmann::ordered_json out;
    out["ok"] = status.ok();
    if (!status.ok()) out["error"] = std::string(status.message());
    if (json.is_object()) out.update(json);
    status.Update(PrintJson(out));
  } else if (status.ok()) {
    status = PrintOut(text);
  }
  return status.ok() ? kExitOk : Fail(command, status);
}

int Fail(const std::string& command, const absl::Status& status) {
  WriteLog(LogLevel::kError, command, std::string(status.message()));
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailure;
}

Progress ProgressBar(const std::string& what, bool as_bytes) {
  if (isatty(STDERR_FILENO) == 0) return nullptr;
  return [what, as_bytes](uint64_t done, uint64_t total) {
    constexpr int kWidth = 40;
    const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(part * kWidth);
    std::fprintf(stderr, "\r  %-8s [%s%s] %3d %%  %s\033[K%s", what.c_str(),
                 std::string(static_cast<size_t>(filled), '#').c_str(),
                 std::string(static_cast<size_t>(kWidth - filled), '.').c_str(),
                 static_cast<int>(part * 100), (as_bytes ? Bytes(done) : Grouped(done)).c_str(),
                 done == total ? "\n" : "");
    std::fflush(stderr);
  };
}

}  // namespace pollux::tools
