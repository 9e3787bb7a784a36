#include "cm/gsi/mad_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "cm/gsi/shard.h"
#include "cm/wire/mad.h"
#include "stack/base/random.h"

namespace pollux::cm {
namespace {

constexpr uint64_t kNow = 1;
constexpr uint64_t kService = 0x01060000 + 7174;

class MadProcessTest : public testing::Test {
 protected:
  std::unique_ptr<kernel::InterfaceClaims> Join() {
    return kernel::InterfaceClaims::Join(index_, 1, 2045, &random_).value();
  }
  static bool IsFor(kernel::InterfaceClaims& claims, const Message& message) {
    MadBuffer mad;
    EmitMad({}, message, mad);
    return IsForThisProcess(mad, claims, kNow);
  }
  uint32_t IdOf(const kernel::InterfaceClaims& claims) {
    return Shard{.process = claims.process_id()}.MakeId(random_.Next32());
  }

  // No interface has such an index.
  const uint32_t index_ = 0x80000000u | static_cast<uint32_t>(getpid());
  Random random_{1};
  std::unique_ptr<kernel::InterfaceClaims> first_ = Join();
  std::unique_ptr<kernel::InterfaceClaims> second_ = Join();
};

template <class T>
T MessageTo(uint32_t receivers_id) {
  T message;
  message.local_comm_id = 0x12345678;
  message.remote_comm_id = receivers_id;
  return message;
}

TEST_F(MadProcessTest, ARequestIsForTheProcessThatListens) {
  ASSERT_TRUE(second_->ClaimService(kService).ok());
  Req req;
  req.service_id = kService;
  SidrReq sidr_req;
  sidr_req.service_id = kService;
  for (const Message& message : {Message(req), Message(sidr_req)}) {
    EXPECT_FALSE(IsFor(*first_, message));
    EXPECT_TRUE(IsFor(*second_, message));
  }
}

TEST_F(MadProcessTest, ARequestForAHeldServiceIsNotRejectedByAnother) {
  Req req;
  req.service_id = kService;
  EXPECT_TRUE(IsFor(*first_, req)) << "of all unclaimed services";
  ASSERT_TRUE(second_->HoldService(kService).ok());
  EXPECT_FALSE(IsFor(*first_, req));
  EXPECT_TRUE(IsFor(*second_, req));
  ASSERT_TRUE(first_->ClaimService(kService).ok());
  EXPECT_TRUE(IsFor(*first_, req));
  EXPECT_FALSE(IsFor(*second_, req));
}

TEST_F(MadProcessTest, EveryOtherMessageIsForTheProcessThatAssignedTheId) {
  const uint32_t id = IdOf(*second_);
  SidrRep sidr_rep;
  sidr_rep.request_id = id;
  for (const Message& message :
       std::vector<Message>{MessageTo<Rep>(id), MessageTo<Rtu>(id), MessageTo<Rej>(id),
                            MessageTo<Mra>(id), MessageTo<Dreq>(id), MessageTo<Drep>(id),
                            MessageTo<Lap>(id), MessageTo<Apr>(id), sidr_rep}) {
    EXPECT_FALSE(IsFor(*first_, message)) << message.index();
    EXPECT_TRUE(IsFor(*second_, message)) << message.index();
  }
}

TEST_F(MadProcessTest, OneProcessHandlesWhatIsForNone) {
  Req req;
  req.service_id = kService;
  EXPECT_TRUE(IsFor(*first_, req));
  EXPECT_FALSE(IsFor(*second_, req));
  EXPECT_TRUE(IsFor(*first_, req));
  auto third = Join();
  const uint32_t id = IdOf(*third);
  EXPECT_FALSE(IsFor(*first_, MessageTo<Dreq>(id)));
  third.reset();
  EXPECT_TRUE(IsFor(*first_, MessageTo<Dreq>(id)));
  EXPECT_FALSE(IsFor(*second_, MessageTo<Dreq>(id)));
  const std::vector<uint8_t> too_short(24);
  EXPECT_TRUE(IsForThisProcess(too_short, *first_, kNow));
  EXPECT_FALSE(IsForThisProcess(too_short, *second_, kNow));
}

// Of a REQ that timed out: only the CA GUID and the sender's ID name the connection.
TEST_F(MadProcessTest, ARejectionWithoutTheReceiversIdIsForEveryProcess) {
  EXPECT_TRUE(IsFor(*first_, MessageTo<Rej>(0)));
  EXPECT_TRUE(IsFor(*second_, MessageTo<Rej>(0)));
}

}  // namespace
}  // namespace pollux::cm
