#include "stack/engine/operator_command.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

TEST(OperatorCommandTest, IsAnsweredWhileTheCommandExists) {
  ASSERT_TRUE(InitEal({.memory_mib = 64}).ok());
  for (const char* answer : {"first", "second"}) {
    const OperatorCommand command("things", "Of things", [answer](std::string_view parameters) {
      Stats stats;
      stats.Set(answer, std::string(parameters));
      return stats;
    });
    const absl::StatusOr<Stats> stats = OperatorCommand::Ask("things", "a,b");
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_EQ(stats->fields().size(), 1u);
    EXPECT_EQ(stats->fields()[0].first, answer);
    EXPECT_EQ(std::get<std::string>(stats->fields()[0].second), "a,b");
  }
  EXPECT_EQ(OperatorCommand::Ask("things", "").status().code(), absl::StatusCode::kNotFound);
}

TEST(OperatorCommandTest, HandlerErrorsAreReturned) {
  ASSERT_TRUE(InitEal({.memory_mib = 64}).ok());
  const OperatorCommand command("nothing", "Of nothing", [](std::string_view) {
    return absl::StatusOr<Stats>(absl::InvalidArgumentError("which?"));
  });
  EXPECT_EQ(OperatorCommand::Ask("nothing", "").status(), absl::InvalidArgumentError("which?"));
}

}  // namespace
}  // namespace pollux::engine
