#include "compat/verbs/work_request_chain.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace pollux::compat {
namespace {

constexpr ibv_qp_cap kCap = {
    .max_send_wr = 2, .max_recv_wr = 0, .max_send_sge = 3, .max_recv_sge = 0, .max_inline_data = 8};

class WorkRequestChainTest : public testing::Test {
 protected:
  void SetUp() override {
    chain_.Reserve(kCap);
    chain_.Start();
  }
  void TearDown() override { chain_.End(); }
  void Restart() {
    chain_.End();
    chain_.Start();
  }

  WorkRequestChain chain_;
};

TEST_F(WorkRequestChainTest, IsLinkedInOrder) {
  EXPECT_EQ(chain_.first(), nullptr);
  ibv_send_wr* const first = chain_.Begin();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(chain_.Last(), first);
  EXPECT_EQ(first->next, nullptr);
  EXPECT_EQ(first->num_sge, 0);
  ibv_send_wr* const second = chain_.Begin();
  EXPECT_EQ(chain_.Last(), second);
  EXPECT_EQ(chain_.first(), first);
  EXPECT_EQ(first->next, second);
  EXPECT_EQ(second->next, nullptr);
  EXPECT_EQ(chain_.error(), 0);
  Restart();
  EXPECT_EQ(chain_.first(), nullptr);
  EXPECT_EQ(chain_.Begin()->next, nullptr);
}

TEST_F(WorkRequestChainTest, IsEmptyOnceItHasEnded) {
  ASSERT_NE(chain_.Begin(), nullptr);
  chain_.SetElements(nullptr, kCap.max_send_sge + 1);
  EXPECT_NE(chain_.error(), 0);
  chain_.End();
  EXPECT_EQ(chain_.first(), nullptr);
  EXPECT_EQ(chain_.error(), 0);
}

TEST_F(WorkRequestChainTest, HoldsAsManyRequestsAsTheSendQueue) {
  for (uint32_t i = 0; i < kCap.max_send_wr; ++i) ASSERT_NE(chain_.Begin(), nullptr);
  EXPECT_EQ(chain_.error(), 0);
  EXPECT_EQ(chain_.Begin(), nullptr);
  EXPECT_EQ(chain_.error(), ENOMEM);
  EXPECT_EQ(chain_.Last(), nullptr);
  Restart();
  EXPECT_EQ(chain_.error(), 0);
  EXPECT_NE(chain_.Begin(), nullptr);
}

TEST_F(WorkRequestChainTest, RequestsHaveSeparateElementsAndInlineData) {
  static_assert(WorkRequestChain::BytesOf(kCap) ==
                kCap.max_send_wr * sizeof(verbs::FlushWorkRequest) +
                    kCap.max_send_wr * kCap.max_send_sge * sizeof(ibv_sge) +
                    kCap.max_send_wr * kCap.max_inline_data);
  static_assert(WorkRequestChain::BytesOf({}) == 0);
  char text[kCap.max_inline_data + 1] = "12345678";
  const ibv_data_buf data{text, kCap.max_inline_data};
  std::array<ibv_sge, kCap.max_send_sge> elements;
  elements.fill({.addr = ~0ull, .length = ~0u, .lkey = ~0u});
  for (uint32_t i = 0; i < kCap.max_send_wr; ++i) {
    ASSERT_NE(chain_.Begin(), nullptr);
    chain_.SetElements(elements.data(), elements.size());
    chain_.SetInline(&data, 1);
  }
  const ibv_send_wr* request = chain_.first();
  for (uint32_t i = 0; i < kCap.max_send_wr; ++i, request = request->next) {
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->num_sge, 1);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(request->sg_list->addr), text, 8), 0);
    EXPECT_EQ(request->sg_list[kCap.max_send_sge - 1].lkey, ~0u);
  }
  EXPECT_EQ(request, nullptr);
}

TEST_F(WorkRequestChainTest, ElementsAreCopied) {
  std::array<ibv_sge, kCap.max_send_sge + 1> elements{};
  for (uint32_t i = 0; i < elements.size(); ++i) elements[i].length = i + 1;
  for (const size_t count : {size_t{kCap.max_send_sge}, size_t{1}}) {
    const ibv_send_wr* const request = chain_.Begin();
    chain_.SetElements(elements.data(), count);
    ASSERT_EQ(request->num_sge, static_cast<int>(count));
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(request->sg_list[i].length, i + 1);
  }
  EXPECT_EQ(chain_.first()->sg_list[kCap.max_send_sge - 1].length, kCap.max_send_sge) << "still";
  chain_.SetElements(elements.data(), elements.size());
  EXPECT_EQ(chain_.error(), EINVAL);
}

TEST_F(WorkRequestChainTest, InlineDataIsCopiedIntoOneElement) {
  char text[] = "12345678";
  const std::array<ibv_data_buf, 3> list = {{{text, 3}, {nullptr, 0}, {text + 3, 5}}};
  for (int requests = 0; requests < 2; ++requests) {
    ibv_send_wr* const request = chain_.Begin();
    chain_.SetInline(list.data(), list.size());
    EXPECT_NE(request->send_flags & IBV_SEND_INLINE, 0u);
    ASSERT_EQ(request->num_sge, 1);
    ASSERT_EQ(request->sg_list->length, kCap.max_inline_data);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(request->sg_list->addr), text, 8), 0);
  }
  const std::array<ibv_data_buf, 2> more = {{{text, 8}, {text, 1}}};
  chain_.SetInline(more.data(), more.size());
  EXPECT_EQ(chain_.error(), EINVAL) << "one more";
}

TEST_F(WorkRequestChainTest, TheLastSetterWins) {
  const ibv_sge element{.addr = 1, .length = 2, .lkey = 3};
  char texts[] = "xy";
  const ibv_data_buf first{&texts[0], 1}, second{&texts[1], 1};
  ibv_send_wr* const request = chain_.Begin();
  request->send_flags = IBV_SEND_SIGNALED;
  for (int twice = 0; twice < 2; ++twice) {
    chain_.SetElements(&element, 1);
    EXPECT_EQ(request->send_flags, unsigned{IBV_SEND_SIGNALED}) << "and not inline";
    ASSERT_EQ(request->num_sge, 1);
    EXPECT_EQ(request->sg_list->addr, 1u);
    EXPECT_EQ(request->sg_list->lkey, 3u);
    for (const ibv_data_buf* data : {&first, &second}) {
      chain_.SetInline(data, 1);
      EXPECT_EQ(request->send_flags, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
      ASSERT_EQ(request->sg_list->length, 1u);
      EXPECT_EQ(*reinterpret_cast<const char*>(request->sg_list->addr),
                *static_cast<const char*>(data->addr));
    }
  }
}

TEST_F(WorkRequestChainTest, SettersWithoutARequestFailWithEinval) {
  const ibv_sge element{};
  chain_.SetElements(&element, 1);
  EXPECT_EQ(chain_.error(), EINVAL);
  chain_.SetInline(nullptr, 0);
  EXPECT_EQ(chain_.Begin(), nullptr) << "the chain is not posted";
}

TEST_F(WorkRequestChainTest, OnlyOneThreadBuildsAtATime) {
  std::atomic<bool> mine = true;
  std::thread other([&] {
    chain_.Start();
    EXPECT_FALSE(mine);
    chain_.End();
  });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  mine = false;
  chain_.End();
  other.join();
  chain_.Start();
}

}  // namespace
}  // namespace pollux::compat
