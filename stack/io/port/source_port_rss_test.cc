#include "stack/io/port/source_port_rss.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_thash.h>

#include "stack/wire/roce_packet.h"

namespace pollux::io {
namespace {

constexpr size_t kKeyBytes = 40;
constexpr uint16_t kTableSize = 128, kQueues = 3;

class SourcePortRssTest : public ::testing::Test {
 protected:
  // The queue that a NIC chooses for a packet with these addresses, as words in host order.
  uint16_t QueueOf(std::vector<uint32_t> words, uint16_t source_port) const {
    words.push_back(uint32_t{source_port} << 16 | wire::kRocePort);
    const uint32_t hash =
        rte_softrss(words.data(), static_cast<uint32_t>(words.size()), key_.data());
    const uint32_t entry = hash % kTableSize;
    return table_[entry / RTE_ETH_RETA_GROUP_SIZE].reta[entry % RTE_ETH_RETA_GROUP_SIZE];
  }

  const std::vector<uint8_t> key_ = RssKey(kKeyBytes);
  const std::vector<rte_eth_rss_reta_entry64> table_ = RssTable(kTableSize, kQueues);
};

TEST_F(SourcePortRssTest, ThePortAloneChoosesTheQueueOverIpv4) {
  for (const uint32_t address : {0xC0000201u, 0x0A141E28u, 0xFFFFFFFFu}) {
    for (uint32_t port = 0xC000; port <= 0xFFFF; port += 13) {
      EXPECT_EQ(QueueOf({address, ~address}, static_cast<uint16_t>(port)), port % 16 % kQueues);
    }
  }
}

TEST_F(SourcePortRssTest, OverIpv6AByteOfTheSourceAddressIsPartOfTheChoice) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    // Bytes 8 to 11 of the source address.
    const uint32_t word = 0x5A00A55A | byte << 16;
    const std::vector<uint32_t> addresses = {0x20010DB8, 0x12345678, word,       0x9ABCDEF0,
                                             0xFE800000, 0x00000000, 0x0250FFFE, 0xFE010203};
    for (uint16_t port = 0xC000; port < 0xC010; ++port) {
      EXPECT_EQ(QueueOf(addresses, port), (port ^ byte) % 16 % kQueues);
    }
  }
}

TEST_F(SourcePortRssTest, EveryEntryOfTheTableIsSet) {
  ASSERT_EQ(table_.size(), 2u);
  for (const rte_eth_rss_reta_entry64& group : table_) EXPECT_EQ(group.mask, UINT64_MAX);
  EXPECT_EQ(RssTable(16, kQueues)[0].mask, 0xFFFFu);
}

TEST_F(SourcePortRssTest, DevicesWithShortKeysOrTablesAreNotUsed) {
  EXPECT_TRUE(RssKey(32).empty());
  EXPECT_TRUE(RssTable(8, kQueues).empty());
}

}  // namespace
}  // namespace pollux::io
