#include "stack/io/steering/steering_rings.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

TEST(SteeringRingsTest, RingsConnectWorkersThatPassFrames) {
  ASSERT_TRUE(InitEal().ok());
  for (const uint32_t queues : {1u, 2u, 4u}) {
    auto rings = io::SteeringRings::Create(4, queues);
    ASSERT_TRUE(rings.ok()) << rings.status();
    for (uint32_t from = 0; from < 4; ++from) {
      for (uint32_t to = 0; to < 4; ++to) {
        const bool joined = from != to && (from < queues || from % queues == to);
        EXPECT_EQ((*rings)->forward(from, to) != nullptr, joined) << from << " to " << to;
        EXPECT_EQ((*rings)->back(to, from) != nullptr, joined) << to << " back to " << from;
      }
    }
  }
}

TEST(SteeringRingsTest, CapacityOfAllRingsIsBounded) {
  for (uint32_t workers = 2; workers <= 16; ++workers) {
    EXPECT_LE((workers - 1) * io::SteeringRings::SizeFor(workers),
              io::SteeringRings::kFramesUnderWay);
  }
  EXPECT_EQ(io::SteeringRings::SizeFor(2), 1024u);
  EXPECT_EQ(io::SteeringRings::SizeFor(16), 64u);
}

TEST(SteeringRingsTest, ClearFreesQueuedFrames) {
  ASSERT_TRUE(InitEal().ok());
  rte_mempool* pool = rte_pktmbuf_pool_create("ringed", 31, 0, 0, 256, SOCKET_ID_ANY);
  ASSERT_NE(pool, nullptr);
  {
    auto rings = io::SteeringRings::Create(2, 2);
    ASSERT_TRUE(rings.ok()) << rings.status();
    ASSERT_EQ(rte_ring_enqueue((*rings)->forward(0, 1), rte_pktmbuf_alloc(pool)), 0);
    ASSERT_EQ(rte_ring_enqueue((*rings)->back(0, 1), rte_pktmbuf_alloc(pool)), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 2u);
    (*rings)->Clear();
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  }
  rte_mempool_free(pool);
}

}  // namespace
}  // namespace pollux::engine
