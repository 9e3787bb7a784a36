#include "nfs/v3/binding.h"

#include "gtest/gtest.h"
#include "nfs/v3/samples_for_test.h"

namespace pollux::nfs {
namespace {

TEST(BindingTest, HasEveryProcedureOnce) {
  const oncrpc::ProgramBinding binding = Nfs3Binding();
  EXPECT_TRUE(binding.Validate().ok()) << binding.Validate();
  EXPECT_EQ(binding.procedures.size(), kProcedures);
  for (uint32_t i = 0; i < kProcedures; ++i) EXPECT_NE(binding.Find(i), nullptr) << i;
}

// RFC 8267 section 4: the size of every reply can be told before the call.
TEST(BindingTest, SizesMatchTheLargestMessages) {
  const oncrpc::ProgramBinding binding = Nfs3Binding();
  const Samples samples;
  samples.ForEach([&](Procedure procedure, const auto& arguments, const auto& results) {
    SCOPED_TRACE(static_cast<uint32_t>(procedure));
    const oncrpc::ProcedureBinding& bound = *binding.Find(static_cast<uint32_t>(procedure));
    std::vector<uint8_t> argument;
    std::vector<uint8_t> result;
    EXPECT_EQ(Encoding(arguments, &argument).size(), bound.max_argument_bytes);
    EXPECT_EQ(Encoding(results, &result).size(), bound.max_result_bytes);
    EXPECT_EQ(argument.size(), bound.max_eligible_argument_bytes);
    EXPECT_EQ(result.size(), bound.max_eligible_result_bytes);
    auto failed = results;
    failed.status = Nfsstat3::kIo;
    EXPECT_LE(Encoding(failed).size(), bound.max_result_bytes);
  });
  const auto size = [&](Procedure procedure) {
    return binding.Find(static_cast<uint32_t>(procedure))->max_argument_bytes;
  };
  EXPECT_EQ(Encoding(ReaddirArgs{.dir = samples.handle}).size(), size(Procedure::kReaddir));
  EXPECT_EQ(Encoding(ReaddirplusArgs{.dir = samples.handle}).size(), size(Procedure::kReaddirplus));
}

// RFC 8267 section 4: four items, and no others.
TEST(BindingTest, FourItemsAreEligible) {
  for (const oncrpc::ProcedureBinding& bound : Nfs3Binding().procedures) {
    const auto procedure = static_cast<Procedure>(bound.number);
    EXPECT_EQ(bound.max_eligible_argument_bytes > 0,
              procedure == Procedure::kWrite || procedure == Procedure::kSymlink)
        << bound.number;
    EXPECT_EQ(bound.max_eligible_result_bytes > 0,
              procedure == Procedure::kRead || procedure == Procedure::kReadlink)
        << bound.number;
  }
}

}  // namespace
}  // namespace pollux::nfs
