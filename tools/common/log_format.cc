#include "tools/common/log_format.h"

#include <sys/stat.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::tools {
namespace {

LogStyle& Style() {
  static LogStyle style{.journal = IsJournal(2)};
  return style;
}

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      break;
  }
  return "info";
}

std::string Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
}

}  // namespace

std::string FormatLog(const LogStyle& style, LogLevel level, std::string_view component,
                      std::string_view message) {
  while (message.ends_with('\n')) message.remove_suffix(1);
  std::string text;
  if (style.json) {
    using Json = nlohmann::ordered_json;
    text = Json({{"level", NameOf(level)},
                 {"time", Now()},
                 {"component", std::string(component)},
                 {"message", std::string(message)}})
               .dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    if (level == LogLevel::kError) text = absl::StrCat("pollux ", std::string(component), ": ");
    text += message;
  }
  text += '\n';
  if (!style.journal) return text;
  // journald takes each line as an entry.
  const std::string prefix = absl::StrCat("<", static_cast<int>(level), ">");
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    lines.append(prefix).append(text, at, end - at);
    at = end;
  }
  return lines;
}

bool IsJournal(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status;
  return stream != nullptr && fstat(fd, &status) == 0 &&
         absl::StrCat(status.st_dev, ":", status.st_ino) == stream;
}

void DeclareLogOption(Options& options) {
  options.Parsed(
      "log-format", "FORMAT",
      "log lines on standard error: text (default), or json, an object per\nline with "
      "level, time, component and message",
      [](const std::string& text) {
        if (text != "text" && text != "json") {
          return absl::InvalidArgumentError(absl::StrCat("'", text, "' is neither text nor json"));
        }
        Style().json = text == "json";
        return absl::OkStatus();
      });
}

const LogStyle& ProcessLogStyle() { return Style(); }

void WriteLog(LogLevel level, std::string_view component, std::string_view message) {
  const std::string lines = FormatLog(Style(), level, component, message);
  std::fwrite(lines.data(), 1, lines.size(), stderr);
}

}  // namespace pollux::tools
