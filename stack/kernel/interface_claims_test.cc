#include "stack/kernel/interface_claims.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <utility>
#include <vector>

#include "stack/kernel/name_claim.h"

namespace pollux::kernel {
namespace {

// No interface has such an index, and no other test at the same time the same one.
uint32_t IndexForTest() {
  static uint32_t count = 0;
  return 0x80000000u | static_cast<uint32_t>(getpid()) << 8 | count++;
}

class InterfaceClaimsTest : public testing::Test {
 protected:
  std::unique_ptr<InterfaceClaims> Join(uint32_t workers, uint32_t queue_pairs) {
    auto claims = InterfaceClaims::Join(index_, workers, queue_pairs, &random_);
    status_ = claims.status();
    return claims.ok() ? *std::move(claims) : nullptr;
  }
  const uint32_t index_ = IndexForTest();
  Random random_{1};
  absl::Status status_;
};

TEST_F(InterfaceClaimsTest, AtLeast64ProgramsWithThousandsOfQueuePairsShareAnInterface) {
  std::vector<std::unique_ptr<InterfaceClaims>> programs;
  std::set<uint32_t> prefixes;
  std::set<uint8_t> ids;
  for (int i = 0; i < 128; ++i) {
    programs.push_back(Join(1, 2045));
    ASSERT_NE(programs.back(), nullptr) << status_;
    const QpnLayout& layout = programs.back()->qpn_layout();
    EXPECT_EQ(layout.generation_bits(), InterfaceClaims::kGenerationBits);
    EXPECT_EQ(layout.index_bits, 11);
    EXPECT_TRUE(prefixes.insert(layout.process).second);
    EXPECT_TRUE(ids.insert(programs.back()->process_id()).second);
  }
  EXPECT_EQ(Join(1, 1), nullptr);
  EXPECT_EQ(status_.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status_.message().find("256 belong to other programs"), std::string::npos) << status_;
  programs.pop_back();
  EXPECT_NE(Join(1, 2045), nullptr) << status_;
}

TEST_F(InterfaceClaimsTest, BlocksOfDifferentSizesDoNotOverlap) {
  const auto large = Join(1, 16381), workers = Join(3, 2045), small = Join(1, 100);
  ASSERT_TRUE(large && workers && small) << status_;
  EXPECT_EQ(workers->qpn_layout().worker_bits, 2);
  const std::vector<const InterfaceClaims*> all = {large.get(), workers.get(), small.get()};
  for (const InterfaceClaims* one : all) {
    const QpnLayout& layout = one->qpn_layout();
    for (const uint32_t worker : {0u, (1u << layout.worker_bits) - 1}) {
      for (const uint32_t index : {2u, (1u << layout.index_bits) - 2}) {
        const Qpn qpn = layout.Make(worker, random_.Next32(), index);
        for (const InterfaceClaims* other : all) {
          EXPECT_EQ(other->qpn_layout().Holds(qpn), other == one);
        }
      }
    }
  }
}

TEST_F(InterfaceClaimsTest, SixteenWorkersTakeTheWholeInterface) {
  auto all = Join(16, 16381);
  ASSERT_NE(all, nullptr) << status_;
  EXPECT_EQ(all->qpn_layout().process_bits, 0);
  EXPECT_EQ(Join(1, 1), nullptr);
  EXPECT_EQ(Join(17, 16381), nullptr);
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(InterfaceClaimsTest, AProcessIdBelongsToItsProcess) {
  const auto first = Join(1, 2045);
  auto second = Join(1, 2045);
  const uint8_t id = second->process_id();
  EXPECT_TRUE(first->HasProcessId(first->process_id()));
  EXPECT_FALSE(first->HasProcessId(id));
  EXPECT_TRUE(first->AnyHasProcessId(id));
  second.reset();
  EXPECT_FALSE(first->AnyHasProcessId(id));
}

TEST_F(InterfaceClaimsTest, AServiceBelongsToOneProcess) {
  const auto first = Join(1, 2045);
  const auto second = Join(1, 2045);
  EXPECT_FALSE(first->OtherTakesService(7));
  EXPECT_TRUE(first->ClaimService(7).ok());
  EXPECT_TRUE(first->ClaimService(7).ok());
  EXPECT_EQ(second->ClaimService(7).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(second->ClaimService(8).ok());
  EXPECT_TRUE(first->HasService(7));
  EXPECT_FALSE(second->HasService(7));
  EXPECT_TRUE(second->OtherTakesService(7));
  first->ReleaseService(7);
  EXPECT_TRUE(second->OtherTakesService(7));
  first->ReleaseService(7);
  EXPECT_FALSE(second->OtherTakesService(7));
  EXPECT_TRUE(second->ClaimService(7).ok());
}

TEST_F(InterfaceClaimsTest, AHeldServiceIsItsHoldersUntilAnotherProcessClaimsIt) {
  const auto first = Join(1, 2045);
  const auto second = Join(1, 2045);
  EXPECT_TRUE(first->HoldService(7).ok());
  EXPECT_TRUE(first->HoldService(7).ok());
  EXPECT_EQ(second->HoldService(7).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(first->TakesService(7));
  EXPECT_TRUE(second->OtherTakesService(7));
  EXPECT_TRUE(second->ClaimService(7).ok());
  EXPECT_FALSE(first->TakesService(7));
  EXPECT_TRUE(first->OtherTakesService(7));
  EXPECT_FALSE(second->OtherTakesService(7));
  second->ReleaseService(7);
  EXPECT_TRUE(first->TakesService(7));
  first->ReleaseHold(7);
  EXPECT_TRUE(second->OtherTakesService(7));
  first->ReleaseHold(7);
  EXPECT_FALSE(second->OtherTakesService(7));
  EXPECT_FALSE(first->TakesService(7));
}

TEST_F(InterfaceClaimsTest, OneProcessAnswersWhatIsUnclaimedAndAnotherAfterIt) {
  auto first = Join(1, 2045);
  const auto second = Join(1, 2045);
  EXPECT_TRUE(first->AnswersUnclaimed(1));
  EXPECT_FALSE(second->AnswersUnclaimed(1));
  first.reset();
  EXPECT_FALSE(second->AnswersUnclaimed(InterfaceClaims::kAnswersRetryNs - 1))
      << "it asks the kernel rarely";
  EXPECT_TRUE(second->AnswersUnclaimed(InterfaceClaims::kAnswersRetryNs));
}

TEST_F(InterfaceClaimsTest, WithoutADescriptorTheNumbersAreNotSaidToBelongToOthers) {
  // A first call may need descriptors for the sanitizer.
  EXPECT_NE(Join(1, 1), nullptr);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto claims = Join(1, 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(claims, nullptr);
  EXPECT_EQ(status_.message().find("belong to other programs"), std::string::npos) << status_;
}

TEST_F(InterfaceClaimsTest, ProgramsOfOneSizeLeaveRoomForLargerOnes) {
  std::vector<std::unique_ptr<InterfaceClaims>> programs;
  for (int i = 0; i < 4; ++i) programs.push_back(Join(1, 16381));  // 16 parts each
  for (int i = 0; i < 3; ++i) {
    programs.push_back(Join(4, 16381));  // 64 parts
    ASSERT_NE(programs.back(), nullptr) << i << ": " << status_;
  }
}

TEST_F(InterfaceClaimsTest, SmallProgramsLeaveRoomForLargeOnes) {
  std::vector<std::unique_ptr<InterfaceClaims>> programs;
  for (int i = 0; i < 64; ++i) programs.push_back(Join(1, 1021));
  for (int i = 0; i < 12; ++i) {
    programs.push_back(Join(1, 16381));  // 16 parts each
    ASSERT_NE(programs.back(), nullptr) << i << ": " << status_;
  }
}

TEST(NameClaimTest, AnotherNameIsAnotherClaim) {
  const std::string name = "test/" + std::to_string(IndexForTest());
  EXPECT_FALSE(NameClaim::IsTaken(name));
  const auto claim = NameClaim::Take(name);
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_TRUE(NameClaim::IsTaken(name));
  EXPECT_FALSE(NameClaim::IsTaken(name + "0"));
  EXPECT_TRUE(NameClaim::Take(name + "0").ok());
}

TEST(NameClaimTest, WithoutADescriptorNothingIsKnown) {
  const std::string name = "test/" + std::to_string(IndexForTest());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool is_taken = NameClaim::IsTaken(name);
  const absl::Status status = NameClaim::Take(name).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(is_taken) << "it may be";
  EXPECT_FALSE(absl::IsAlreadyExists(status)) << status;
  EXPECT_FALSE(NameClaim::IsTaken(name));
}

}  // namespace
}  // namespace pollux::kernel
