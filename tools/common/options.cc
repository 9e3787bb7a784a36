#include "tools/common/options.h"

#include <getopt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kHelpOfHelp[] = "this text";

HelpFormat help_format = HelpFormat::kText;

}  // namespace

void SetHelpFormat(HelpFormat format) { help_format = format; }

std::string CommandsHelp(const std::string& usage, const std::string& about,
                         const std::vector<CommandName>& commands, const std::string& end) {
  if (help_format == HelpFormat::kJson) {
    Json list = Json::array();
    for (const CommandName& command : commands) {
      list.push_back({{"name", command.name}, {"about", command.about}});
    }
    return Json({{"usage", usage}, {"about", about}, {"commands", list}}).dump() + "\n";
  }
  size_t width = 0;
  for (const CommandName& command : commands) {
    width = std::max(width, std::string_view(command.name).size());
  }
  std::string help = absl::StrCat("usage: pollux ", usage, "\n\n", about,
                                  about.empty() ? "" : "\n\n", "commands:\n");
  for (const CommandName& command : commands) {
    absl::StrAppendFormat(&help, "  %-*s%s\n", static_cast<int>(width + 2), command.name,
                          command.about);
  }
  return absl::StrCat(help, "\n", end, "\n");
}

void Options::Text(const std::string& name, const std::string& value, const std::string& help,
                   std::string* target) {
  Parsed(name, value, help, [target](const std::string& text) {
    *target = text;
    return absl::OkStatus();
  });
}

void Options::Number(const std::string& name, const std::string& help, uint64_t low, uint64_t high,
                     uint64_t* target) {
  Parsed(name, "N", help, [=](const std::string& text) {
    uint64_t number;
    if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
      return absl::InvalidArgumentError(
          absl::StrFormat("'%s' is not a number from %u to %u", text, low, high));
    }
    *target = number;
    return absl::OkStatus();
  });
}

void Options::Real(const std::string& name, const std::string& help, double low, double high,
                   double* target) {
  Parsed(name, "X", help, [=](const std::string& text) {
    double number;
    // SimpleAtod() takes hexadecimal numbers too.
    const bool decimal = text.find_first_of("xX") == std::string::npos;
    if (!decimal || !absl::SimpleAtod(text, &number) || !(number >= low && number <= high)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("'%s' is not a number from %g to %g", text, low, high));
    }
    *target = number;
    return absl::OkStatus();
  });
}

void Options::Switch(const std::string& name, const std::string& help, bool* target) {
  Parsed(name, "", help, [target](const std::string&) {
    *target = true;
    return absl::OkStatus();
  });
}

void Options::Parsed(const std::string& name, const std::string& value, const std::string& help,
                     std::function<absl::Status(const std::string&)> parse) {
  options_.push_back({name, value, help, std::move(parse)});
}

void Options::Letter(const std::string& name, char letter) {
  for (Option& option : options_) {
    if (option.name == name) option.letter = letter;
  }
}

absl::StatusOr<std::vector<std::string>> Options::Parse(int argc, char** argv, size_t least,
                                                        size_t most) {
  std::vector<option> table;
  std::string letters = ":h";
  for (size_t i = 0; i < options_.size(); ++i) {
    table.push_back({options_[i].name.c_str(),
                     options_[i].value.empty() ? no_argument : required_argument, nullptr,
                     static_cast<int>(i) + 256});
    if (options_[i].letter == 0) continue;
    letters += options_[i].letter;
    if (!options_[i].value.empty()) letters += ':';
  }
  table.push_back({"help", no_argument, nullptr, 'h'});
  table.push_back({});
  opterr = 0;
  optind = 0;
  for (;;) {
    const int found = getopt_long(argc, argv, letters.c_str(), table.data(), nullptr);
    if (found == -1) break;
    if (found == 'h') {
      help_asked_ = true;
      return std::vector<std::string>();
    }
    if (found == ':') {
      return absl::InvalidArgumentError(
          absl::StrCat("option ", argv[optind - 1], " needs a value"));
    }
    if (found == '?') {
      return absl::InvalidArgumentError(
          absl::StrCat("no option '", argv[optind - 1], "' here; --help lists the options"));
    }
    const auto given = std::find_if(options_.begin(), options_.end(), [&](const Option& one) {
      return found < 256 ? one.letter == found
                         : &one == &options_[static_cast<size_t>(found - 256)];
    });
    const Option& option = *given;
    const std::string value = optarg != nullptr ? optarg : "";
    if (absl::Status status = option.take(value); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", option.name, ": ", status.message()));
    }
    given_.emplace_back(option.name, value);
  }
  std::vector<std::string> operands(argv + optind, argv + argc);
  if (operands.size() < least) {
    return absl::InvalidArgumentError(absl::StrCat("too few operands; usage: pollux ", usage_));
  }
  if (operands.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", operands[most], "' is one operand too many; usage: pollux ", usage_));
  }
  return operands;
}

std::string Options::HelpJson() const {
  Json list = Json::array();
  for (const Option& option : options_) {
    list.push_back({{"name", option.name},
                    {"letter", option.letter == 0 ? "" : std::string(1, option.letter)},
                    {"value", option.value},
                    {"help", option.help}});
  }
  list.push_back({{"name", "help"}, {"letter", ""}, {"value", ""}, {"help", kHelpOfHelp}});
  return Json({{"usage", usage_}, {"about", about_}, {"options", list}}).dump() + "\n";
}

std::string Options::Help() const {
  if (help_format == HelpFormat::kJson) return HelpJson();
  std::string help = absl::StrCat("usage: pollux ", usage_, "\n\n", about_, "\n\noptions:\n");
  const auto line = [&](char letter, const std::string& name, const std::string& value,
                        const std::string& text) {
    const std::string left =
        absl::StrCat(letter == 0 ? "  --" : absl::StrFormat("  -%c, --", letter), name,
                     value.empty() ? "" : absl::StrCat(" ", value));
    absl::StrAppend(&help, absl::StrFormat("%-28s ", left));
    if (left.size() > 28) absl::StrAppend(&help, "\n", std::string(29, ' '));
    for (const char c : text) {
      help += c;
      if (c == '\n') help += std::string(29, ' ');
    }
    help += "\n";
  };
  for (const Option& option : options_) line(option.letter, option.name, option.value, option.help);
  line(0, "help", "", kHelpOfHelp);
  return help;
}

}  // namespace pollux::tools
