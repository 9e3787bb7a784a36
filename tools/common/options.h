// Command lines: options declared in a table, parsed by getopt_long, help printed from the table.
// Manual pages and completions are made from the same table, which Help() then prints as JSON.
#ifndef POLLUX_TOOLS_COMMON_OPTIONS_H_
#define POLLUX_TOOLS_COMMON_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pollux::tools {

// Exit statuses of every command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// The form of Help()'s result: text for people (the default), or JSON for programs, with "usage",
// "about" and, depending on the command, "options" or "commands".
enum class HelpFormat { kText, kJson };
void SetHelpFormat(HelpFormat format);

// A subcommand in the help of the command above it.
struct CommandName {
  const char* name;
  const char* about;
};
// The help of a command that has subcommands. `usage` and `about` are as in Options; `end` is the
// last paragraph.
std::string CommandsHelp(const std::string& usage, const std::string& about,
                         const std::vector<CommandName>& commands, const std::string& end);

class Options {
 public:
  // `usage` follows "usage: pollux " on the first line of the help. `about` is one or two
  // sentences.
  Options(std::string usage, std::string about)
      : usage_(std::move(usage)), about_(std::move(about)) {}

  // Declare an option "--name VALUE" (or "--name" alone). The target is written only if the option
  // is given with a valid value.
  void Text(const std::string& name, const std::string& value, const std::string& help,
            std::string* target);
  void Number(const std::string& name, const std::string& help, uint64_t low, uint64_t high,
              uint64_t* target);
  void Real(const std::string& name, const std::string& help, double low, double high,
            double* target);
  void Switch(const std::string& name, const std::string& help, bool* target);
  // For any other kind of value; the error of `parse` explains what is wrong.
  void Parsed(const std::string& name, const std::string& value, const std::string& help,
              std::function<absl::Status(const std::string&)> parse);

  // Adds a short form to a declared option, as in -p 7174.
  void Letter(const std::string& name, char letter);

  // Returns the operands, at least `least` and at most `most`. InvalidArgument with a message of
  // one line. If --help is among the arguments, sets help_asked() instead of failing.
  absl::StatusOr<std::vector<std::string>> Parse(int argc, char** argv, size_t least, size_t most);
  bool help_asked() const { return help_asked_; }
  // The options that Parse() has found, in order: the full name and the value ("" for a switch).
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }
  std::string Help() const;

 private:
  std::string HelpJson() const;

  struct Option {
    std::string name, value, help;
    std::function<absl::Status(const std::string&)> take;
    char letter = 0;  // 0: none
  };
  std::string usage_, about_;
  std::vector<Option> options_;
  bool help_asked_ = false;
  std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_COMMON_OPTIONS_H_
