#include "stack/io/steering/qpn_layout.h"

#include <gtest/gtest.h>

namespace pollux::io {
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
  for (uint8_t worker_bits = 0; worker_bits <= 8; ++worker_bits) {
    for (uint8_t index_bits = 2; index_bits + worker_bits <= 24; ++index_bits) {
      const QpnLayout layout{.worker_bits = worker_bits, .index_bits = index_bits};
      const uint32_t worker = (1u << worker_bits) - 1;
      const uint32_t index = (1u << index_bits) - 2;
      const Qpn qpn = layout.Make(worker, 0xFFFFFF, index);
      EXPECT_LT(qpn.value, 1u << 24);
      EXPECT_EQ(layout.worker(qpn), worker);
      EXPECT_EQ(layout.index(qpn), index);
      // The generation touches neither of the others.
      EXPECT_EQ(layout.worker(layout.Make(worker, 0, index)), worker);
      EXPECT_EQ(layout.Make(worker, 1u << layout.generation_bits(), index),
                layout.Make(worker, 0, index));
    }
  }
}

}  // namespace
}  // namespace pollux::io
