#include "stack/base/insistence.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(Insistence, WhatComesAtOnceIsOneRequest) {
  constexpr int64_t kFirst = 1000;
  Insistence insistence;
  EXPECT_FALSE(insistence.Insists(kFirst));
  EXPECT_FALSE(insistence.Insists(kFirst));
  EXPECT_FALSE(insistence.Insists(kFirst + Insistence::kAtOnceMs - 1));
  EXPECT_TRUE(insistence.Insists(kFirst + Insistence::kAtOnceMs));
}

}  // namespace
}  // namespace pollux
