// The form of log lines on standard error: text, or JSON for programs; each with the level in front
// if journald reads it.
#ifndef POLLUX_TOOLS_COMMON_LOG_FORMAT_H_
#define POLLUX_TOOLS_COMMON_LOG_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/common/options.h"

namespace pollux::tools {

// With the numbers of syslog(3).
enum class LogLevel : uint8_t { kError = 3, kWarning = 4, kInfo = 6 };

struct LogStyle {
  bool json = false;
  bool journal = false;  // with the prefixes of sd-daemon(3)
};

// Returns complete lines, with newlines. Text is the message itself, of an error after "pollux
// COMPONENT: ". JSON is one object on one line: level, time (UTC, RFC 3339), component, message.
// `message` may have several lines, and a newline at its end.
std::string FormatLog(const LogStyle& style, LogLevel level, std::string_view component,
                      std::string_view message);

// Whether `fd` is the stream that JOURNAL_STREAM names: systemd.exec(5).
bool IsJournal(int fd);

// Declares --log-format, which sets the style of this process. Threads that log must be started
// after the options are parsed.
void DeclareLogOption(Options& options);
// The style of this process for standard error.
const LogStyle& ProcessLogStyle();
// Writes to standard error in this style. May block: for control threads (see LineLog).
void WriteLog(LogLevel level, std::string_view component, std::string_view message);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_LOG_FORMAT_H_
