// The output of commands: tables and progress on standard output or error, or one JSON object with
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

// Two columns; the first is as wide as its longest text.
std::string Table(const std::vector<std::pair<std::string, std::string>>& rows);

// Writes all of `text` to standard output. DataLoss if that fails (a full disk); Cancelled if the
// command is interrupted while the reader of a pipe does not read.
absl::Status PrintOut(const std::string& text);
// Prints one line. Bytes that are not UTF-8 (file names may have them) become U+FFFD.
absl::Status PrintJson(const nlohmann::ordered_json& json);

// Percentiles 50, 99 and 99.9, and the maximum, in microseconds.
nlohmann::ordered_json LatencyJson(const Histogram& latency_ns);

// Adds the counters of congestion control, with mlx5's names.
void AddCongestion(const transport::Counters& counters, nlohmann::ordered_json* json);

// Writes one line with the error to standard error. Returns the exit status
// (tools/common/options.h): kExitUsage for InvalidArgument, otherwise kExitFailure.
int Fail(const std::string& command, const absl::Status& status);

// A name that is safe to print on a terminal: control characters, which could move the cursor, are
// escaped as in JSON.
std::string Printable(const std::string& name);

// Bytes that are not UTF-8 become U+FFFD.
std::string ReplaceInvalidUtf8(const std::string& text);

// Quotes `text` as one word of a shell command line.
std::string ShellQuoted(const std::string& text);

// Parses the command line. Returns an exit status if there is nothing more to do, after it has
// printed the help or an error.
std::optional<int> ParseOperands(const std::string& command, Options& options, int argc,
                                 char** argv, size_t least, size_t most,
                                 std::vector<std::string>* operands);

// Prints the result of a command and returns the exit status. Prints `text` on success, or with
// `as_json` an object with "ok", "error" and the contents of `json`. Errors are also written to
// standard error.
int Finish(const std::string& command, bool as_json, absl::Status status,
           const nlohmann::ordered_json& json, const std::string& text);

// A progress bar on standard error; shows nothing if that is not a terminal.
Progress ProgressBar(const std::string& what, bool as_bytes);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_REPORT_H_
