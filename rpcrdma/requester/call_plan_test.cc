#include "rpcrdma/requester/call_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {
namespace {

constexpr size_t kRpcHeader = 40;  // of a call without credentials
constexpr uint32_t kMax = 100'000;

class CallPlanTest : public testing::Test {
 protected:
  CallPlan Plan(const oncrpc::CallRequest& request) {
    const absl::StatusOr<CallPlan> plan = PlanCall(request, terms);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.value_or(CallPlan{});
  }

  const oncrpc::ProgramBinding binding{.program = 0x20000000,
                                       .version = 1,
                                       .procedures = {{.number = 1,
                                                       .max_argument_bytes = kMax,
                                                       .max_eligible_argument_bytes = kMax,
                                                       .max_result_bytes = kMax,
                                                       .max_eligible_result_bytes = kMax,
                                                       .max_eligible_arguments = 3}}};
  CallTerms terms{.binding = &binding,
                  .call_threshold = 4096,
                  .reply_threshold = 4096,
                  .call_header_bytes = kRpcHeader};
  std::vector<uint8_t> memory = std::vector<uint8_t>(4 * kMax);
  absl::Span<uint8_t> room = absl::MakeSpan(memory).first(kMax);
  // Room for any reply of which the results are known to be small.
  oncrpc::CallRequest request{.procedure = 1, .item_buffers = {&room, 1}, .max_result_bytes = 0};
};

// RFC 8166 section 3.5.3: as large as the threshold is inline, a word more is not.
TEST_F(CallPlanTest, ArgumentsAboveTheThresholdMakeALongCall) {
  const CallPlan offers = Plan(request);
  const size_t header = kMinHeaderBytes + 8 + kSegmentBytes;
  EXPECT_TRUE(offers.write_chunks);
  EXPECT_FALSE(offers.reply_chunk);
  const absl::Span<const uint8_t> bytes = memory;
  request.arguments = bytes.first(4096 - header - kRpcHeader);
  EXPECT_FALSE(Plan(request).long_call);
  request.arguments = bytes.first(4096 - header - kRpcHeader + 4);
  EXPECT_TRUE(Plan(request).long_call);
  terms.call_threshold = 8192;
  EXPECT_FALSE(Plan(request).long_call);
}

// RFC 8166 section 4.3.3: by the maximum size of Transport and Payload streams together.
TEST_F(CallPlanTest, ResultsAboveTheThresholdNeedAReplyChunk) {
  request.reply_buffer = absl::MakeSpan(memory).subspan(kMax);
  const size_t header = kMinHeaderBytes + 8 + kSegmentBytes;
  request.max_result_bytes = 4096 - header - oncrpc::kReplyHeaderBytes;
  EXPECT_FALSE(Plan(request).reply_chunk);
  *request.max_result_bytes += 4;
  EXPECT_TRUE(Plan(request).reply_chunk);
  request.reply_buffer = request.reply_buffer.first(100);
  EXPECT_EQ(PlanCall(request, terms).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CallPlanTest, ResultsThatFitTheMessageNeedNoChunk) {
  room = room.first(1000);
  EXPECT_FALSE(Plan(request).has_chunks());
}

// The largest items go, and no more of them than need be.
TEST_F(CallPlanTest, TheLargestItemsGoIntoReadChunks) {
  room = room.first(100);
  const absl::Span<const uint8_t> bytes = memory;
  const oncrpc::EligibleItem items[] = {
      {bytes.first(1000), 0}, {bytes.first(5000), 4}, {bytes.first(3000), 8}};
  request.arguments = bytes.first(12);
  request.items = items;
  EXPECT_EQ(Plan(request).read_chunks, 0b010u | 0b100u);
  terms.call_threshold = 8192;
  EXPECT_EQ(Plan(request).read_chunks, 0b010u);
  terms.call_threshold = 16384;
  EXPECT_EQ(Plan(request).read_chunks, 0u);
  terms.call_threshold = 1024;
  EXPECT_EQ(Plan(request).read_chunks, 0b111u);
  EXPECT_FALSE(Plan(request).long_call);
}

// RFC 8166 section 8.2.2.3
TEST_F(CallPlanTest, NothingIsReducedUnderIntegrityOrPrivacy) {
  terms.may_reduce = false;
  const absl::Span<const uint8_t> bytes = memory;
  const oncrpc::EligibleItem item{bytes.first(4), 4};
  request.arguments = bytes.first(5000);
  request.reply_buffer = absl::MakeSpan(memory).first(oncrpc::kReplyHeaderBytes + kMax);
  const CallPlan plan = Plan(request);
  EXPECT_EQ(plan.read_chunks, 0u);
  EXPECT_TRUE(plan.long_call);
  EXPECT_FALSE(plan.write_chunks);
  EXPECT_TRUE(plan.reply_chunk);
  request.items = {&item, 1};
  EXPECT_EQ(PlanCall(request, terms).status().code(), absl::StatusCode::kInvalidArgument);
}

// RFC 8167 section 5.3
TEST_F(CallPlanTest, WithoutChunksLargeCallsAreRefused) {
  terms.chunks = false;
  EXPECT_EQ(PlanCall(request, terms).status().code(), absl::StatusCode::kInvalidArgument);
  room = room.first(1000);
  EXPECT_FALSE(Plan(request).has_chunks());
  request.arguments = absl::MakeConstSpan(memory).first(4096);
  EXPECT_EQ(PlanCall(request, terms).status().code(), absl::StatusCode::kInvalidArgument);
}

// RFC 8166 section 3.4.2 and section 6.1
TEST_F(CallPlanTest, CallsOutsideTheBindingAreRefused) {
  const auto refused = [this] {
    return PlanCall(request, terms).status().code() == absl::StatusCode::kInvalidArgument;
  };
  const absl::Span<const uint8_t> bytes = memory;
  oncrpc::EligibleItem items[] = {
      {bytes.first(4), 0}, {bytes.first(4), 4}, {bytes.first(4), 4}, {bytes.first(4), 4}};
  request.arguments = bytes.first(4);
  request.items = items;
  EXPECT_TRUE(refused());
  request.items = absl::MakeConstSpan(items).first(3);
  EXPECT_FALSE(refused());
  items[0].position = 8;
  EXPECT_TRUE(refused());
  items[0].position = 2;
  EXPECT_TRUE(refused());
  items[0] = {bytes.first(kMax + 1), 0};
  EXPECT_TRUE(refused());
  request.items = {};
  request.arguments = bytes.first(kMax + 4);
  EXPECT_TRUE(refused());
  request.arguments = {};
  request.procedure = 2;
  EXPECT_TRUE(refused());
}

// Each call that is said to be plain has a plan without chunks, by sizes on both sides of what
// fits.
TEST(PlainCallsTest, IncludeExactlyTheCallsPlannedWithoutChunks) {
  constexpr uint32_t kSizes[] = {0, 4, 900, 952, 956, 960, 4000, 8192};
  const std::vector<uint8_t> bytes(8192);
  oncrpc::ProgramBinding binding{.program = 0x20000000, .version = 1};
  for (const uint32_t arguments : kSizes) {
    for (const uint32_t results : kSizes) {
      for (const uint32_t eligible : {0u, 8192u}) {
        binding.procedures.push_back({.number = static_cast<uint32_t>(binding.procedures.size()),
                                      .max_argument_bytes = arguments,
                                      .max_result_bytes = results,
                                      .max_eligible_result_bytes = eligible});
      }
    }
  }
  ASSERT_LE(binding.procedures.size(), 2 * oncrpc::kMaxProcedures);
  uint32_t plain = 0;
  for (const uint32_t threshold : {20u, 1024u, 4096u}) {
    const CallTerms terms{.binding = &binding,
                          .call_threshold = threshold,
                          .reply_threshold = threshold,
                          .call_header_bytes = kRpcHeader};
    PlainCalls calls;
    calls.Reset(terms);
    for (uint32_t procedure = 0; procedure <= binding.procedures.size(); ++procedure) {
      for (const size_t size : {0, 1, 4, 948, 952, 956, 960, 4024, 4028, 4032}) {
        const oncrpc::CallRequest request{.procedure = procedure,
                                          .arguments = absl::MakeConstSpan(bytes).first(size)};
        const absl::StatusOr<CallPlan> plan = PlanCall(request, terms);
        EXPECT_EQ(calls.Include(request), plan.ok() && !plan->has_chunks())
            << threshold << " " << procedure << " " << size;
        plain += calls.Include(request) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(plain, 0u);
}

// What the caller states itself is planned anew.
TEST(PlainCallsTest, CallsWithItemsBuffersOrAHeaderAreNotPlain) {
  const oncrpc::ProgramBinding binding{
      .program = 0x20000000, .version = 1, .procedures = {{.number = 1}}};
  PlainCalls calls;
  calls.Reset({.binding = &binding, .call_header_bytes = kRpcHeader});
  oncrpc::CallRequest request{.procedure = 1};
  EXPECT_TRUE(calls.Include(request));
  const oncrpc::CallHeader header{.procedure = 1};
  request.header = &header;
  EXPECT_FALSE(calls.Include(request));
  request.header = nullptr;
  const oncrpc::EligibleItem item;
  request.items = {&item, 1};
  EXPECT_FALSE(calls.Include(request));
  request.items = {};
  const absl::Span<uint8_t> buffer;
  request.item_buffers = {&buffer, 1};
  EXPECT_FALSE(calls.Include(request));
  request.item_buffers = {};
  request.max_result_bytes = 0;
  EXPECT_FALSE(calls.Include(request));
}

// RFC 8166 section 3.4.3 and section 3.4.5: 32 bits. The memory is not touched.
TEST(CallPlan, FourGibibytesAreRefused) {
  constexpr uint64_t kFourGib = uint64_t{1} << 32;
  uint8_t byte = 0;
  const oncrpc::ProgramBinding binding{
      .program = 1,
      .version = 1,
      .procedures = {{.number = 1,
                      .max_argument_bytes = 4 * oncrpc::kMaxItems,
                      .max_eligible_argument_bytes = oncrpc::kMaxItemBytes,
                      .max_result_bytes = 8000,
                      .max_eligible_result_bytes = oncrpc::kMaxItemBytes,
                      .max_eligible_arguments = oncrpc::kMaxItems}}};
  const CallTerms terms{.binding = &binding, .call_header_bytes = 40};
  std::vector<uint8_t> reply(10'000);
  const std::vector<uint8_t> arguments(4 * oncrpc::kMaxItems);
  std::vector<oncrpc::EligibleItem> items;
  const auto plan = [&](size_t count, uint64_t room, uint64_t reply_bytes) {
    items.clear();
    for (size_t i = 0; i < count; ++i) {
      items.push_back({absl::MakeConstSpan(&byte, oncrpc::kMaxItemBytes), 4 * (i + 1)});
    }
    const absl::Span<uint8_t> buffer(&byte, room);
    return PlanCall({.procedure = 1,
                     .arguments = arguments,
                     .items = items,
                     .item_buffers = {&buffer, 1},
                     .reply_buffer = {reply.data(), reply_bytes}},
                    terms)
        .status()
        .code();
  };
  const auto refused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(plan(3, kFourGib - 1, kFourGib - 1), absl::StatusCode::kOk);
  EXPECT_EQ(plan(4, kFourGib - 1, kFourGib - 1), refused);
  EXPECT_EQ(plan(3, kFourGib, kFourGib - 1), refused);
  EXPECT_EQ(plan(3, kFourGib - 1, kFourGib), refused);
}

}  // namespace
}  // namespace pollux::rpcrdma
