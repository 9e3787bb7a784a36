#include "tools/tirpc/binding_table.h"

#include <gtest/gtest.h>

#include <string>

namespace pollux::tools {
namespace {

struct PutArguments {
  char* name;
  struct {
    u_int data_len;
    char* data_val;
  } data;
};

TEST(BindingTable, AStatedBindingIsFound) {
  const pollux_procedure procedures[] = {
      {.procedure = 1,
       .max_argument_bytes = 259,
       .max_result_bytes = 4,
       .arguments = POLLUX_ITEM(PutArguments, data.data_val, 1 << 20),
       .results = {},
       .idempotent = 1},
  };
  ASSERT_TRUE(
      StateBinding({.program = 7, .version = 2, .procedure_count = 1, .procedures = procedures})
          .ok());
  const rpcrdma::tirpc::UpperLayer upper = FindBinding(7, 2);
  const oncrpc::ProcedureBinding* const put = upper.binding.Find(1);
  EXPECT_EQ(put->max_argument_bytes, 260u);
  EXPECT_EQ(put->max_eligible_argument_bytes, 1u << 20);
  EXPECT_EQ(put->max_eligible_arguments, 1u);
  EXPECT_EQ(put->max_eligible_result_bytes, 0u);
  EXPECT_TRUE(put->idempotent);
  ASSERT_EQ(upper.ArgumentsOf(1).offsets.size(), 1u);
  EXPECT_EQ(upper.ArgumentsOf(1).offsets[0], offsetof(PutArguments, data.data_val));
  // Other procedures, other versions.
  EXPECT_EQ(upper.binding.Find(2)->max_argument_bytes, rpcrdma::tirpc::kDefaultMaxBytes);
  EXPECT_EQ(FindBinding(7, 3).binding.Find(1)->max_eligible_argument_bytes, 0u);
}

TEST(BindingTable, ErrorsNameTheInvalidProcedure) {
  pollux_procedure procedure{};
  procedure.procedure = 5;
  procedure.results.count = POLLUX_MAX_ITEMS + 1;
  procedure.results.max_bytes = 1;
  const pollux_program program{
      .program = 8, .version = 1, .procedure_count = 1, .procedures = &procedure};
  const absl::Status status = StateBinding(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("procedure 5: 9 eligible results"),
            std::string::npos);
  procedure.results = {.count = 1, .offsets = {0}, .max_bytes = (1u << 30) + 1};
  EXPECT_FALSE(StateBinding(program).ok());
  procedure.results.max_bytes = 0;
  EXPECT_FALSE(StateBinding(program).ok());
  procedure.results.max_bytes = 1u << 30;
  EXPECT_TRUE(StateBinding(program).ok());
}

}  // namespace
}  // namespace pollux::tools
