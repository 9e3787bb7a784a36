#include "stack/engine/loop/poller.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace pollux::engine {
namespace {

// More than have a bit of their own.
constexpr int kMany = 70;

class PollerListTest : public testing::Test {
 protected:
  // Sleeps when it is polled, unless `on_poll` wakes it. Does work if it was awake.
  struct Recorder : Poller {
    bool Poll(uint64_t /*now_ns*/) override {
      if (!wakeup().awake()) return false;
      wakeup().Sleep();
      polled->push_back(number);
      if (on_poll) on_poll();
      return true;
    }
    int number = 0;
    std::vector<int>* polled = nullptr;
    std::function<void()> on_poll;
  };

  void Add(int count) {
    for (int i = 0; i < count; ++i) {
      auto& poller = pollers_.emplace_back(std::make_unique<Recorder>());
      poller->number = static_cast<int>(pollers_.size()) - 1;
      poller->polled = &polled_;
      list_.Add(poller.get());
    }
  }
  std::vector<int> Turn() {
    polled_.clear();
    const bool worked = list_.Run(0);
    EXPECT_EQ(worked, !polled_.empty());
    return polled_;
  }
  void Wake(int number) { pollers_[static_cast<size_t>(number)]->wakeup().Wake(); }

  PollerList list_;
  std::vector<std::unique_ptr<Recorder>> pollers_;
  std::vector<int> polled_;
};

TEST_F(PollerListTest, AnEmptyListDoesNothing) { EXPECT_EQ(Turn(), std::vector<int>{}); }

TEST_F(PollerListTest, ThoseThatAreAwakeArePolledInOrder) {
  Add(kMany);
  std::vector<int> all(kMany);
  for (int i = 0; i < kMany; ++i) all[static_cast<size_t>(i)] = i;
  EXPECT_EQ(Turn(), all);
  EXPECT_EQ(Turn(), std::vector<int>{});
  for (int number : {69, 63, 3, 64, 0, 62}) Wake(number);
  EXPECT_EQ(Turn(), (std::vector<int>{0, 3, 62, 63, 64, 69}));
  Wake(66);
  EXPECT_EQ(Turn(), std::vector<int>{66});
  EXPECT_EQ(Turn(), std::vector<int>{});
}

TEST_F(PollerListTest, OneThatStaysAwakeIsPolledInEachTurn) {
  Add(kMany);
  Turn();
  for (int number : {5, 67}) {
    Recorder* const poller = pollers_[static_cast<size_t>(number)].get();
    poller->on_poll = [poller] { poller->wakeup().Wake(); };
    Wake(number);
  }
  EXPECT_EQ(Turn(), (std::vector<int>{5, 67}));
  EXPECT_EQ(Turn(), (std::vector<int>{5, 67}));
}

TEST_F(PollerListTest, APollerWakesLaterOnesInItsTurnAndEarlierOnesInTheNext) {
  Add(kMany);
  Turn();
  pollers_[4]->on_poll = [this] {
    for (int number : {2, 4, 6, 68}) Wake(number);
    pollers_[4]->on_poll = nullptr;
  };
  Wake(4);
  EXPECT_EQ(Turn(), (std::vector<int>{4, 6, 68}));
  EXPECT_EQ(Turn(), (std::vector<int>{2, 4}));
}

TEST_F(PollerListTest, ARemovedPollerIsNotPolled) {
  Add(kMany);
  Turn();
  for (int number : {3, 8, 66}) Wake(number);
  list_.Remove(pollers_[3].get());
  EXPECT_EQ(Turn(), (std::vector<int>{8, 66}));
  // The others have moved up, the first one without a bit of its own included.
  for (int number : {2, 3, 4, 64, 69}) Wake(number);
  EXPECT_EQ(Turn(), (std::vector<int>{2, 4, 64, 69}));
}

TEST_F(PollerListTest, APollerMayRemoveItselfAndAddOthers) {
  Add(3);
  Turn();
  pollers_[1]->on_poll = [this] {
    list_.Remove(pollers_[1].get());
    pollers_[1]->wakeup().Wake();
    Add(1);
  };
  Wake(1);
  Wake(2);
  EXPECT_EQ(Turn(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(Turn(), std::vector<int>{});
  Wake(3);
  EXPECT_EQ(Turn(), std::vector<int>{3});
}

TEST_F(PollerListTest, RemovingAPollerOfAnotherListChangesNothing) {
  Add(1);
  PollerList other;
  Recorder stranger;
  other.Add(&stranger);
  other.Remove(pollers_[0].get());
  EXPECT_EQ(Turn(), std::vector<int>{0});
  Wake(0);
  EXPECT_EQ(Turn(), std::vector<int>{0});
}

TEST_F(PollerListTest, RemovingTheLastPollerLeavesAnEmptyList) {
  Recorder stranger;
  list_.Remove(&stranger);
  EXPECT_EQ(Turn(), std::vector<int>{});
  Add(1);
  list_.Remove(pollers_[0].get());
  EXPECT_EQ(Turn(), std::vector<int>{});
  Add(1);
  EXPECT_EQ(Turn(), std::vector<int>{1});
}

}  // namespace
}  // namespace pollux::engine
