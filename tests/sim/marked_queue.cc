#include "tests/sim/marked_queue.h"

#include <algorithm>

#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace pollux::sim {
namespace {

constexpr uint64_t kBitNs = 8'000'000'000;  // of a byte at 1 bit/s

}  // namespace

bool SetCongestionExperienced(rte_mbuf* frame) {
  uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
  const auto ethernet = wire::ParseEthernet(bytes, frame->data_len);
  if (!ethernet) return false;
  uint8_t* ip = bytes + ethernet->bytes();
  const size_t length = frame->data_len - ethernet->bytes();
  if (ethernet->ether_type == wire::kEtherTypeIpv4) {
    const auto header = wire::ParseIpv4(ip, length);
    if (!header || (header->tos & wire::ipv4::kEcnMask) == wire::kNotEct) return false;
    ip[wire::ipv4::kTos] |= wire::kCe;
    wire::UpdateIpv4Checksum(ip);
    return true;
  }
  if (ethernet->ether_type == wire::kEtherTypeIpv6) {
    const auto header = wire::ParseIpv6(ip, length);
    if (!header || (header->traffic_class & wire::ipv4::kEcnMask) == wire::kNotEct) return false;
    ip[wire::ipv6::kVersionClassFlow + 1] |= wire::kCe << 4;
    return true;
  }
  return false;
}

void MarkedQueue::ResetCounters() { counters_ = {}; }

bool MarkedQueue::IsMarked(uint64_t waiting_bytes, Random& random) const {
  if (waiting_bytes < options_.min_bytes) return false;
  if (waiting_bytes >= options_.max_bytes) return true;
  return random.Chance(options_.max_probability *
                       static_cast<double>(waiting_bytes - options_.min_bytes) /
                       static_cast<double>(options_.max_bytes - options_.min_bytes));
}

std::optional<uint64_t> MarkedQueue::Pass(rte_mbuf* frame, uint32_t from, uint64_t now_ns,
                                          Random& random) {
  busy_until_ns_ = std::max(busy_until_ns_, now_ns);
  const uint64_t waiting =
      (busy_until_ns_ - now_ns) * (options_.bits_per_second / 1'000) / (kBitNs / 1'000);
  if (waiting + frame->pkt_len > options_.capacity_bytes) {
    ++counters_.lost;
    return std::nullopt;
  }
  counters_.longest_bytes = std::max(counters_.longest_bytes, waiting);
  if (IsMarked(waiting, random) && SetCongestionExperienced(frame)) ++counters_.marked;
  counters_.bytes += frame->pkt_len;
  if (counters_.bytes_from.size() <= from) counters_.bytes_from.resize(from + 1, 0);
  counters_.bytes_from[from] += frame->pkt_len;
  busy_until_ns_ += frame->pkt_len * kBitNs / options_.bits_per_second;
  return busy_until_ns_;
}

}  // namespace pollux::sim
