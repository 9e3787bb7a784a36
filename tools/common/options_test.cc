#include "tools/common/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pollux::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() : options_("test [options] FILE", "About.") {
    options_.Text("name", "TEXT", "a text", &text_);
    options_.Number("count", "a number", 1, 10, &number_);
    options_.Real("rate", "a rate", 0, 1, &real_);
    options_.Switch("json", "a switch", &on_);
  }
  absl::StatusOr<std::vector<std::string>> Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "test");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    return options_.Parse(static_cast<int>(argv.size()) - 1, argv.data(), 1, 1);
  }
  Options options_;
  std::string text_ = "unset";
  uint64_t number_ = 0;
  double real_ = 0;
  bool on_ = false;
};

TEST_F(OptionsTest, OptionsAndOperandsMayBeMixed) {
  const auto operands = Parse({"--name=x", "file", "--count", "10", "--rate", "0.5", "--json"});
  ASSERT_TRUE(operands.ok()) << operands.status();
  EXPECT_THAT(*operands, ElementsAre("file"));
  EXPECT_EQ(text_, "x");
  EXPECT_EQ(number_, 10u);
  EXPECT_EQ(real_, 0.5);
  EXPECT_TRUE(on_);
}

TEST_F(OptionsTest, LettersAreShortFormsOfOptions) {
  options_.Letter("count", 'C');
  options_.Letter("json", 'j');
  const auto operands = Parse({"-C", "7", "file", "-j"});
  ASSERT_TRUE(operands.ok()) << operands.status();
  EXPECT_EQ(number_, 7u);
  EXPECT_TRUE(on_);
  EXPECT_THAT(options_.Help(), HasSubstr("\n  -C, --count N "));
  EXPECT_THAT(std::string(Parse({"-C", "11", "file"}).status().message()),
              HasSubstr("--count: '11' is not"));
  EXPECT_FALSE(Parse({"-n", "x", "file"}).ok());  // has no letter
}

TEST_F(OptionsTest, ErrorsNameTheInvalidArgument) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } kCases[] = {
      {{"file", "--wrong"}, "no option '--wrong'"},
      {{"file", "--count"}, "--count needs a value"},
      {{"file", "--count", "11"}, "--count: '11' is not a number from 1 to 10"},
      {{"file", "--count", "2x"}, "--count: '2x' is not"},
      {{"file", "--rate", "nan"}, "--rate: 'nan' is not"},
      {{"file", "--rate", "0x1"}, "--rate: '0x1' is not"},
      {{}, "too few operands"},
      {{"a", "b"}, "'b' is one operand too many"},
  };
  for (const auto& test : kCases) {
    const auto result = Parse(test.arguments);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(test.message));
  }
}

TEST_F(OptionsTest, HelpListsEverything) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(options_.help_asked());
  for (const char* part : {"usage: pollux test", "About.", "--name TEXT", "--count N", "--json"}) {
    EXPECT_THAT(options_.Help(), HasSubstr(part));
  }
}

TEST_F(OptionsTest, JsonHelpMatchesTextHelp) {
  options_.Letter("count", 'C');
  SetHelpFormat(HelpFormat::kJson);
  const auto help = nlohmann::json::parse(options_.Help());
  const auto commands =
      nlohmann::json::parse(CommandsHelp("x COMMAND", "", {{"y", "what"}}, "end"));
  SetHelpFormat(HelpFormat::kText);
  EXPECT_EQ(help["about"], "About.");
  EXPECT_EQ(help["options"].size(), 5u);
  EXPECT_EQ(help["options"][1]["name"], "count");
  EXPECT_EQ(help["options"][1]["letter"], "C");
  EXPECT_EQ(help["options"][1]["value"], "N");
  EXPECT_EQ(help["options"].back()["name"], "help");
  EXPECT_EQ(commands["commands"][0]["about"], "what");
}

TEST(CommandsHelpTest, ListsCommandsInAColumn) {
  EXPECT_EQ(CommandsHelp("x COMMAND", "About.", {{"y", "one"}, {"long", "two"}}, "End."),
            "usage: pollux x COMMAND\n\nAbout.\n\ncommands:\n  y     one\n  long  two\n\nEnd.\n");
}

}  // namespace
}  // namespace pollux::tools
