#include "nfs/export/change_watch.h"

#include <gtest/gtest.h>

namespace pollux::nfs {
namespace {

TEST(ChangeWatchTest, SuccessiveChangesAreExclusive) {
  ChangeWatch watch;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch.End(watch.Begin(1, 2)));
}

TEST(ChangeWatchTest, OverlappingChangesAreNotExclusive) {
  ChangeWatch watch;
  const auto first = watch.Begin(1, 2);
  const auto second = watch.Begin(1, 2);
  EXPECT_FALSE(watch.End(second));
  // Though nobody else is there any more.
  EXPECT_FALSE(watch.End(first));
  EXPECT_TRUE(watch.End(watch.Begin(1, 2)));
}

TEST(ChangeWatchTest, AChangeOverlappedByALaterOneIsNotExclusive) {
  ChangeWatch watch;
  const auto first = watch.Begin(1, 2);
  const auto second = watch.Begin(1, 2);
  EXPECT_FALSE(watch.End(first));
  EXPECT_FALSE(watch.End(second));
}

TEST(ChangeWatchTest, ChangesOfOtherObjectsDoNotOverlap) {
  ChangeWatch watch;
  const auto first = watch.Begin(1, 2);
  EXPECT_TRUE(watch.End(watch.Begin(1, 3)));
  EXPECT_TRUE(watch.End(first));
}

}  // namespace
}  // namespace pollux::nfs
