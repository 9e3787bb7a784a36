#include "stack/base/qpn_layout.h"

#include <gtest/gtest.h>

namespace pollux {
namespace {

TEST(QpnLayoutTest, PartsHaveTheirBitPositions) {
  constexpr QpnLayout layout;
  static_assert(layout.generation_bits() == 6);
  constexpr Qpn qpn = layout.Make(0xA, 0x2B, 0x1234);
  static_assert(qpn.value == (0xAu << 20 | 0x2Bu << 14 | 0x1234u));
  EXPECT_EQ(layout.worker(qpn), 0xAu);
  EXPECT_EQ(layout.index(qpn), 0x1234u);
}

TEST(QpnLayoutTest, PartsOfEveryLayoutRoundTrip) {
  for (uint8_t process_bits = 0; process_bits <= 8; ++process_bits) {
    for (uint8_t worker_bits = 0; worker_bits <= 8; ++worker_bits) {
      for (uint8_t index_bits = 2; process_bits + index_bits + worker_bits <= 24; ++index_bits) {
        const QpnLayout layout{.worker_bits = worker_bits,
                               .index_bits = index_bits,
                               .process_bits = process_bits,
                               .process = (1u << process_bits) - 1};
        const uint32_t worker = (1u << worker_bits) - 1;
        const uint32_t index = (1u << index_bits) - 2;
        const Qpn qpn = layout.Make(worker, 0xFFFFFF, index);
        EXPECT_LT(qpn.value, 1u << 24);
        EXPECT_TRUE(layout.Holds(qpn));
        EXPECT_EQ(layout.worker(qpn), worker);
        EXPECT_EQ(layout.index(qpn), index);
        // The generation touches none of the others.
        EXPECT_TRUE(layout.Holds(layout.Make(worker, 0, index)));
        EXPECT_EQ(layout.worker(layout.Make(worker, 0, index)), worker);
        EXPECT_EQ(layout.Make(worker, 1u << layout.generation_bits(), index),
                  layout.Make(worker, 0, index));
      }
    }
  }
}

TEST(QpnLayoutTest, NumbersOfAnotherProcessAreNotHeld) {
  constexpr QpnLayout layout{.worker_bits = 0, .index_bits = 11, .process_bits = 7, .process = 5};
  static_assert(layout.generation_bits() == 6);
  EXPECT_TRUE(layout.Holds(Qpn{5u << 17}));
  EXPECT_TRUE(layout.Holds(Qpn{(6u << 17) - 1}));
  EXPECT_FALSE(layout.Holds(Qpn{(5u << 17) - 1}));
  EXPECT_FALSE(layout.Holds(Qpn{6u << 17}));
}

}  // namespace
}  // namespace pollux
