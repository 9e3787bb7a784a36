// What commands print: tables and progress on standard error or output, one JSON object with
// --json.
#ifndef POLLUX_TOOLS_COMMON_REPORT_H_
#define POLLUX_TOOLS_COMMON_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stack/transport/diagnostics/counters.h"
#include "tools/common/histogram.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"

namespace pollux::tools {

// "1.25 GB/s", "3.4 MiB", "12.5 us", "98,304".
std::string Rate(double bytes_per_second);
std::string Bytes(uint64_t bytes);
std::string Microseconds(uint64_t ns);
std::string Grouped(uint64_t number);

// Two columns, the first as wide as it must be.
std::string Table(const std::vector<std::pair<std::string, std::string>>& rows);

// Writes to standard output, all of it. Errors: DataLoss when it takes no more (a full disk).
absl::Status PrintOut(const std::string& text);
// One line. Bytes that are no UTF-8 (names of files may have them) become U+FFFD.
absl::Status PrintJson(const nlohmann::ordered_json& json);

// Percentiles in microseconds: 50, 99, 99.9 and the longest.
nlohmann::ordered_json LatencyJson(const Histogram& latency_ns);

// What congestion control counted, under mlx5's names.
void AddCongestion(const transport::Counters& counters, nlohmann::ordered_json* json);

// One line on standard error: what went wrong. Returns the exit status (tools/common/options.h):
// usage for InvalidArgument, else failure.
int Fail(const std::string& command, const absl::Status& status);

// A name as a terminal may show it, with the escapes of JSON: what is no letter could move its
// cursor.
std::string Printable(const std::string& name);

// As a word of a shell's command line.
std::string ShellQuoted(const std::string& text);

// Parses the command line; an exit status when there is nothing more to do: help, or an error,
// which is told.
std::optional<int> ParseOperands(const std::string& command, Options& options, int argc,
                                 char** argv, size_t least, size_t most,
                                 std::vector<std::string>* operands);

// Prints what came of a command and returns the exit status: `text` when all is well, or with
// `as_json` an object of "ok", "error" and what is in `json`. Errors go to standard error too.
int Finish(const std::string& command, bool as_json, absl::Status status,
           const nlohmann::ordered_json& json, const std::string& text);

// A bar that overwrites itself on standard error when that is a terminal; nothing else.
Progress ProgressBar(const std::string& what, bool as_bytes);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_REPORT_H_
