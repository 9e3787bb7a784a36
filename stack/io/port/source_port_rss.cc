#include "stack/io/port/source_port_rss.h"

#include <rte_ethdev.h>

#include <climits>

namespace pollux::io {
namespace {

// The position of the source port in the hash's input, behind both addresses, in bits.
constexpr size_t kPortOverIpv4 = 64, kPortOverIpv6 = 256;
constexpr size_t kPortBits = 16, kHashBits = 32;

// Toeplitz: bit i of the input, if set, XORs bits i to i + 31 of the key into the hash. So a single
// bit of the key takes one bit of the input to each bit of the hash, in reverse order. This one
// takes the highest of the wanted bits of the port to the hash's lowest.
constexpr size_t KeyBit(size_t port) { return port + kPortBits - kRssPortBits + kHashBits - 1; }

uint16_t Reversed(uint16_t value) {
  uint16_t result = 0;
  for (int bit = 0; bit < kRssPortBits; ++bit) {
    result = static_cast<uint16_t>(result << 1 | (value >> bit & 1));
  }
  return result;
}

}  // namespace

std::vector<uint8_t> RssKey(size_t bytes) {
  if (bytes * CHAR_BIT <= KeyBit(kPortOverIpv6)) return {};
  std::vector<uint8_t> key(bytes);
  for (const size_t port : {kPortOverIpv4, kPortOverIpv6}) {
    key[KeyBit(port) / CHAR_BIT] |= static_cast<uint8_t>(0x80 >> KeyBit(port) % CHAR_BIT);
  }
  return key;
}

std::vector<rte_eth_rss_reta_entry64> RssTable(uint16_t size, uint16_t queues) {
  if (size < 1 << kRssPortBits) return {};
  std::vector<rte_eth_rss_reta_entry64> table((size + RTE_ETH_RETA_GROUP_SIZE - 1) /
                                              RTE_ETH_RETA_GROUP_SIZE);
  for (uint16_t i = 0; i < size; ++i) {
    rte_eth_rss_reta_entry64& group = table[i / RTE_ETH_RETA_GROUP_SIZE];
    group.mask |= uint64_t{1} << i % RTE_ETH_RETA_GROUP_SIZE;
    group.reta[i % RTE_ETH_RETA_GROUP_SIZE] = Reversed(i % (1 << kRssPortBits)) % queues;
  }
  return table;
}

}  // namespace pollux::io
