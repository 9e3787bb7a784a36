#include "stack/engine/objects/queue_pair_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "stack/verbs/completion_queue.h"

namespace pollux::engine {
namespace {

using transport::Drop;

constexpr uint32_t kWorker = 3;
constexpr uint32_t kMaxQueuePairs = 4;

class QueuePairTableTest : public ::testing::Test {
 protected:
  QueuePairSlot* Make() {
    QueuePairSlot* slot = table_.Take();
    if (slot != nullptr) Fill(*slot);
    return slot;
  }
  void Fill(QueuePairSlot& slot) {
    verbs::QueuePairInitAttr init;
    init.pd = &pd_;
    init.send_cq = init.recv_cq = &cq_;
    slot.endpoint = std::make_unique<transport::Endpoint>(slot.qpn, std::move(init), &active_);
  }
  std::vector<uint32_t> Numbers(Qpn after) {
    std::vector<uint32_t> numbers;
    table_.VisitNumbers(after, [&](Qpn qpn) {
      numbers.push_back(qpn.value);
      return true;
    });
    return numbers;
  }
  static void Fired(void* test, QueuePairSlot& slot) {
    static_cast<QueuePairTableTest*>(test)->fired_.push_back(&slot);
  }

  const QpnLayout layout_{};
  Random random_{Random::Seed{}};
  TimingWheel wheel_{0};
  memory::ProtectionDomain pd_;
  verbs::CompletionQueue cq_{16};
  verbs::ActiveList active_;
  transport::Counters counters_{};
  std::vector<QueuePairSlot*> fired_;
  QueuePairTable table_{layout_, kWorker, kMaxQueuePairs, &random_, &Fired, this};
};

TEST_F(QueuePairTableTest, ANumberMapsToItsSlotAndWorker) {
  QueuePairSlot* slot = Make();
  EXPECT_EQ(layout_.worker(slot->qpn), kWorker);
  EXPECT_EQ(table_.Find(slot->qpn, counters_), slot);
  EXPECT_EQ(&table_.Of(slot->endpoint->qp), slot);
  EXPECT_EQ(table_.FindEndpoint(slot->qpn), slot->endpoint.get());
  EXPECT_EQ(table_.in_use(), 1u);
}

TEST_F(QueuePairTableTest, ANumberOfAnotherGenerationIsStaleAndOfAnotherWorkerUnknown) {
  QueuePairSlot* slot = Make();
  const Qpn stale{slot->qpn.value ^ (1u << layout_.index_bits)};
  EXPECT_EQ(table_.Find(stale, counters_), nullptr);
  EXPECT_EQ(counters_.drop(Drop::kStaleQpn), 1u);
  EXPECT_EQ(table_.FindEndpoint(stale), nullptr);
  const Qpn elsewhere{slot->qpn.value ^ (1u << (24 - layout_.worker_bits))};
  EXPECT_EQ(table_.Find(elsewhere, counters_), nullptr);
  EXPECT_EQ(table_.Find(kGsiQpn, counters_), nullptr);
  EXPECT_EQ(table_.Find(Qpn{0}, counters_), nullptr);
  EXPECT_EQ(table_.Find(Qpn{(1u << layout_.index_bits) - 1}, counters_), nullptr);
  EXPECT_EQ(counters_.drop(Drop::kUnknownQpn), 4u);
}

TEST_F(QueuePairTableTest, AReleasedNumberIsReusedLastWithANewGeneration) {
  QueuePairSlot* first = Make();
  const Qpn before = first->qpn;
  first->endpoint.reset();
  table_.Release(*first);
  for (uint32_t i = 0; i < kMaxQueuePairs - 1; ++i) EXPECT_NE(Make(), first);
  EXPECT_EQ(Make(), first);
  EXPECT_NE(first->qpn, before);
  EXPECT_EQ(Make(), nullptr);
  EXPECT_EQ(table_.free_numbers(), 0u);
}

TEST_F(QueuePairTableTest, ATimerFiresForItsSlot) {
  Make();
  QueuePairSlot* second = Make();
  wheel_.Arm(second->timer, 1'000'000);
  wheel_.Advance(2'000'000);
  EXPECT_EQ(fired_, std::vector<QueuePairSlot*>{second});
}

TEST_F(QueuePairTableTest, TheGsiQueuePairIsUniqueAndListedFirst) {
  QueuePairSlot* gsi = table_.TakeGsi();
  ASSERT_NE(gsi, nullptr);
  Fill(*gsi);
  EXPECT_EQ(table_.TakeGsi(), nullptr);
  EXPECT_EQ(table_.Find(kGsiQpn, counters_), gsi);
  EXPECT_EQ(&table_.Of(gsi->endpoint->qp), gsi);
  QueuePairSlot* other = Make();
  EXPECT_EQ(Numbers(Qpn{0}), (std::vector<uint32_t>{kGsiQpn.value, other->qpn.value}));
  EXPECT_EQ(Numbers(kGsiQpn), std::vector<uint32_t>{other->qpn.value});
  EXPECT_TRUE(Numbers(other->qpn).empty());
  gsi->endpoint.reset();
  table_.Release(*gsi);
  EXPECT_EQ(table_.free_numbers(), kMaxQueuePairs - 1);
  EXPECT_EQ(table_.TakeGsi(), gsi);
}

TEST(QueuePairTableCheckTest, TheLayoutMustHoldAllWorkersAndQueuePairs) {
  const QpnLayout layout{.worker_bits = 2, .index_bits = 4};
  EXPECT_TRUE(QueuePairTable::Check(layout, 3, 13).ok());
  EXPECT_FALSE(QueuePairTable::Check(layout, 4, 13).ok());
  EXPECT_FALSE(QueuePairTable::Check(layout, 3, 14).ok());
  EXPECT_FALSE(QueuePairTable::Check(layout, 3, 0).ok());
  EXPECT_FALSE(QueuePairTable::Check({.worker_bits = 12, .index_bits = 12}, 0, 1).ok());
}

}  // namespace
}  // namespace pollux::engine
