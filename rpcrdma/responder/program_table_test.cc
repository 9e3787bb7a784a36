#include "rpcrdma/responder/program_table.h"

#include <gtest/gtest.h>

#include <utility>

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kProgram = 0x20000000;

Program ProgramOf(uint32_t version, uint32_t procedure = 0) {
  Program program{.binding = {.program = kProgram, .version = version, .procedures = {{}}},
                  .procedures = {}};
  program.procedures.push_back({procedure, [](const CallView&, ReplyHandle) {}});
  return program;
}

TEST(ProgramTable, FindReturnsTheHandlerOrTheSupportedVersions) {
  ProgramTable table;
  EXPECT_EQ(table.Find(kProgram, 2, 0).handler, nullptr);
  EXPECT_EQ(table.WhyNot(kProgram, 2).status, oncrpc::AcceptStatus::kProgramUnavailable);
  ASSERT_TRUE(table.Add(ProgramOf(4)).ok());
  ASSERT_TRUE(table.Add(ProgramOf(2)).ok());
  const ProgramTable::Target found = table.Find(kProgram, 2, 0);
  EXPECT_NE(found.handler, nullptr);
  EXPECT_NE(found.binding, nullptr);
  EXPECT_EQ(table.Find(kProgram, 2, 1).handler, nullptr);
  EXPECT_EQ(table.WhyNot(kProgram, 2).status, oncrpc::AcceptStatus::kProcedureUnavailable);
  EXPECT_EQ(table.Find(kProgram, 3, 0).handler, nullptr);
  const ProgramTable::Reason other = table.WhyNot(kProgram, 3);
  EXPECT_EQ(other.status, oncrpc::AcceptStatus::kProgramMismatch);
  EXPECT_EQ(other.low, 2u);
  EXPECT_EQ(other.high, 4u);
}

TEST(ProgramTable, ProceduresWithHighNumbersAreFound) {
  ProgramTable table;
  Program program = ProgramOf(1, /*procedure=*/1'000'000);
  program.binding.procedures = {{.number = 1'000'000, .max_argument_bytes = 8}};
  ASSERT_TRUE(table.Add(std::move(program)).ok());
  const ProgramTable::Target found = table.Find(kProgram, 1, 1'000'000);
  ASSERT_NE(found.handler, nullptr);
  EXPECT_EQ(found.binding->max_argument_bytes, 8u);
  EXPECT_EQ(table.Find(kProgram, 1, 1'000'001).handler, nullptr);
  EXPECT_EQ(table.Find(kProgram, 1, 0).handler, nullptr);
}

TEST(ProgramTable, AHandlerForOtherProceduresNeedsABinding) {
  ProgramTable table;
  Program program = ProgramOf(1);
  program.others = [](const CallView&, ReplyHandle) {};
  // RFC 8166 section 6: only with a binding.
  EXPECT_EQ(table.Add(std::move(program)).code(), absl::StatusCode::kInvalidArgument);
  program = ProgramOf(1);
  program.others = [](const CallView&, ReplyHandle) {};
  program.binding.others = oncrpc::ProcedureBinding{.max_argument_bytes = 8};
  ASSERT_TRUE(table.Add(std::move(program)).ok());
  EXPECT_EQ(table.Find(kProgram, 1, 0).binding->max_argument_bytes, 0u);
  const ProgramTable::Target other = table.Find(kProgram, 1, 4711);
  ASSERT_NE(other.handler, nullptr);
  EXPECT_EQ(other.binding->max_argument_bytes, 8u);
  program = ProgramOf(2);
  program.binding.others = oncrpc::ProcedureBinding{.max_argument_bytes = 7};
  EXPECT_EQ(table.Add(std::move(program)).code(), absl::StatusCode::kInvalidArgument);
}

// RFC 8166 section 6
TEST(ProgramTable, RefusesProceduresWithoutABinding) {
  ProgramTable table;
  EXPECT_EQ(table.Add(ProgramOf(1, /*procedure=*/5)).code(), absl::StatusCode::kInvalidArgument);
  Program unbound = ProgramOf(1);
  unbound.binding.procedures.clear();
  EXPECT_EQ(table.Add(std::move(unbound)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(table.Add(ProgramOf(1)).ok());
  EXPECT_EQ(table.Add(ProgramOf(1)).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace pollux::rpcrdma
