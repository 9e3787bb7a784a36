#include "rpcrdma/connection/free_list.h"

#include <gtest/gtest.h>

namespace pollux::rpcrdma {
namespace {

TEST(FreeList, TheLastNumberThatWasGivenBackIsTakenFirst) {
  FreeList list;
  EXPECT_TRUE(list.empty());
  list.Fill(/*first=*/7, /*count=*/3);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list.next(), 7u);
  EXPECT_EQ(list.Take(), 7u);
  EXPECT_EQ(list.Take(), 8u);
  list.Give(7);
  EXPECT_EQ(list.next(), 7u);
  EXPECT_EQ(list.Take(), 7u);
  EXPECT_EQ(list.Take(), 9u);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.capacity(), 3u);
  list.Fill(/*first=*/1, /*count=*/2);
  EXPECT_EQ(list.Take(), 1u);
  EXPECT_EQ(list.capacity(), 2u);
}

}  // namespace
}  // namespace pollux::rpcrdma
