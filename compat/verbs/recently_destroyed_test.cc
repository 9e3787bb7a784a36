#include "compat/verbs/recently_destroyed.h"

#include <gtest/gtest.h>

namespace pollux::compat {
namespace {

struct Counted {
  explicit Counted(size_t* alive) : count(alive) { ++*count; }
  ~Counted() { --*count; }
  size_t* count;
};

TEST(RecentlyDestroyed, KeepsTheLastObjects) {
  size_t alive = 0;
  {
    RecentlyDestroyed<Counted> retired;
    for (size_t i = 1; i <= RecentlyDestroyed<Counted>::kMax; ++i) {
      retired.Put(std::make_unique<Counted>(&alive));
      EXPECT_EQ(alive, i);
    }
    retired.Put(std::make_unique<Counted>(&alive));
    EXPECT_EQ(alive, RecentlyDestroyed<Counted>::kMax);
  }
  EXPECT_EQ(alive, 0u);
}

}  // namespace
}  // namespace pollux::compat
