#include "tests/sim/fabric.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "stack/base/byte_order.h"

namespace pollux::sim {

Conditions DrawConditions(Random& random) {
  constexpr double kScales[] = {0, 0.1, 1};
  const double scale = kScales[random.Below(3)];
  const auto chance = [&](double most) {
    return scale * most * static_cast<double>(random.Below(1000)) / 1000;
  };
  Conditions conditions;
  conditions.loss = chance(0.03);
  conditions.duplication = chance(0.03);
  conditions.reordering = chance(0.05);
  conditions.corruption = chance(0.03);
  conditions.min_delay_ns = random.Below(10'000);
  conditions.max_delay_ns = conditions.min_delay_ns + random.Below(100'000);
  conditions.reorder_delay_ns = 1 + random.Below(500'000);
  if (random.Chance(0.3)) conditions.bits_per_second = 1'000'000'000 << random.Below(6);
  return conditions;
}

FabricPort::~FabricPort() { Drain(); }

void FabricPort::Drain() {
  for (const auto& [arrival_ns, frame] : queue_) rte_pktmbuf_free(frame);
  for (const auto& [arrival_ns, sent] : to_marked_) rte_pktmbuf_free(sent.first);
  queue_.clear();
  to_marked_.clear();
}

uint64_t FabricPort::NextArrival() const {
  const uint64_t here = queue_.empty() ? UINT64_MAX : queue_.begin()->first;
  return to_marked_.empty() ? here : std::min(here, to_marked_.begin()->first);
}

// What has reached the marked queue by now, in the order of time.
void FabricPort::PassQueue(uint64_t now_ns) {
  while (!to_marked_.empty() && to_marked_.begin()->first <= now_ns) {
    const auto [arrival_ns, sent] = *to_marked_.begin();
    to_marked_.erase(to_marked_.begin());
    const std::optional<uint64_t> left_ns =
        marked_->Pass(sent.first, sent.second, arrival_ns, fabric_->random_);
    if (left_ns) {
      queue_.emplace(*left_ns, sent.first);
    } else {
      ++fabric_->counters_.queue_overflow;
      rte_pktmbuf_free(sent.first);
    }
  }
}

uint16_t FabricPort::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  PassQueue(now_ns);
  uint16_t count = 0;
  while (count < capacity && !queue_.empty() && queue_.begin()->first <= now_ns) {
    rte_mbuf* frame = queue_.begin()->second;
    queue_.erase(queue_.begin());
    if (!up_) {
      ++fabric_->counters_.link_down;
      rte_pktmbuf_free(frame);
      continue;
    }
    ++fabric_->counters_.delivered;
    frames[count++] = frame;
  }
  return count;
}

uint16_t FabricPort::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  for (uint16_t i = 0; i < count; ++i) fabric_->Switch(*this, frames[i], now_ns);
  return count;
}

Fabric::Fabric(uint64_t seed, const Conditions& conditions)
    : conditions_(conditions), random_(seed) {
  static unsigned made = 0;
  copies_ = rte_pktmbuf_pool_create(("fabric" + std::to_string(made++)).c_str(), kCopyBuffers, 0, 0,
                                    RTE_PKTMBUF_HEADROOM + 4608, SOCKET_ID_ANY);
  if (copies_ == nullptr) std::abort();  // a test machine without memory
}

Fabric::~Fabric() {
  ports_.clear();
  rte_mempool_free(copies_);
}

FabricPort* Fabric::AddPort(const MacAddress& mac) {
  ports_.emplace_back(new FabricPort(this, static_cast<uint32_t>(ports_.size()), mac));
  for (auto& port : ports_) port->in_order_ns_.resize(ports_.size(), 0);
  return ports_.back().get();
}

uint64_t Fabric::NextArrival() const {
  uint64_t next = UINT64_MAX;
  for (const auto& port : ports_) next = std::min(next, port->NextArrival());
  return next;
}

void Fabric::Drain() {
  for (auto& port : ports_) port->Drain();
}

unsigned Fabric::copies_in_use() const { return rte_mempool_in_use_count(copies_); }

rte_mbuf* Fabric::Copy(rte_mbuf* frame) {
  rte_mbuf* copy = rte_pktmbuf_copy(frame, copies_, 0, UINT32_MAX);
  if (copy == nullptr || copy->nb_segs > 1) {
    ++counters_.no_buffer;
    rte_pktmbuf_free(copy);
    return nullptr;
  }
  return copy;
}

void Fabric::Switch(FabricPort& from, rte_mbuf* frame, uint64_t now_ns) {
  ++counters_.sent;
  // A wire knows no segments: what was gathered leaves as one piece.
  if (frame->nb_segs > 1) {
    rte_mbuf* whole = Copy(frame);
    rte_pktmbuf_free(frame);
    if (whole == nullptr) return;
    frame = whole;
  }
  if (tap_ != nullptr) tap_(from, *frame);
  if (!from.up_) {
    ++counters_.link_down;
    rte_pktmbuf_free(frame);
    return;
  }
  uint64_t left_ns = now_ns;
  if (conditions_.bits_per_second != 0) {
    const uint64_t wire_ns = frame->pkt_len * uint64_t{8'000'000'000} / conditions_.bits_per_second;
    from.busy_until_ns_ = std::max(from.busy_until_ns_, now_ns) + wire_ns;
    left_ns = from.busy_until_ns_;
  }
  const uint8_t* destination = rte_pktmbuf_mtod(frame, const uint8_t*);
  const auto is_destination = [&](const auto& port) {
    return std::memcmp(port->mac_.data(), destination, port->mac_.size()) == 0;
  };
  const auto known = std::find_if(ports_.begin(), ports_.end(), is_destination);
  if (frame->pkt_len >= 14 && known != ports_.end()) {
    Deliver(from, **known, frame, left_ns);
    return;
  }
  for (auto& port : ports_) {
    if (port.get() == &from) continue;
    if (rte_mbuf* copy = Copy(frame)) Deliver(from, *port, copy, left_ns);
  }
  rte_pktmbuf_free(frame);
}

// ARP has no check sum: what the Ethernet FCS lets pass there nobody can detect, and one wrong MAC
// address makes a black hole until it ages. So only IP is corrupted, as in net::Impairment.
bool Fabric::IsIp(const rte_mbuf& frame) {
  if (frame.data_len < 14) return false;
  const uint16_t ether_type = LoadBe16(rte_pktmbuf_mtod_offset(&frame, const uint8_t*, 12));
  return ether_type == 0x0800 || ether_type == 0x86DD;
}

void Fabric::Deliver(FabricPort& from, FabricPort& to, rte_mbuf* frame, uint64_t now_ns) {
  if (random_.Chance(conditions_.loss)) {
    ++counters_.lost;
    rte_pktmbuf_free(frame);
    return;
  }
  const auto delay = [&] {
    return conditions_.min_delay_ns +
           random_.Below(conditions_.max_delay_ns - conditions_.min_delay_ns + 1);
  };
  if (random_.Chance(conditions_.duplication)) {
    if (rte_mbuf* copy = Copy(frame)) {
      ++counters_.duplicated;
      Enqueue(from, to, copy, now_ns + delay() + random_.Below(conditions_.reorder_delay_ns + 1));
    }
  }
  if (random_.Chance(conditions_.corruption) && IsIp(*frame)) {
    // Of a copy: the sender's memory stays what it was.
    rte_mbuf* copy = Copy(frame);
    rte_pktmbuf_free(frame);
    if (copy == nullptr) return;
    ++counters_.corrupted;
    for (uint64_t flips = 1 + random_.Below(3); flips > 0; --flips) {
      const uint64_t bit = random_.Below(uint64_t{copy->pkt_len} * 8);
      rte_pktmbuf_mtod(copy, uint8_t*)[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    }
    frame = copy;
  }
  uint64_t& in_order_ns = to.in_order_ns_[from.index_];
  uint64_t arrival_ns = std::max(now_ns + delay(), in_order_ns);
  if (random_.Chance(conditions_.reordering)) {
    ++counters_.reordered;
    arrival_ns += random_.Below(conditions_.reorder_delay_ns + 1);
  } else {
    in_order_ns = arrival_ns;
  }
  Enqueue(from, to, frame, arrival_ns);
}

void Fabric::Enqueue(FabricPort& from, FabricPort& to, rte_mbuf* frame, uint64_t arrival_ns) {
  if (to.queue_.size() + to.to_marked_.size() == kMaxQueued) {
    ++counters_.queue_overflow;
    rte_pktmbuf_free(frame);
    return;
  }
  if (!to.marked_) {
    to.queue_.emplace(arrival_ns, frame);
    return;
  }
  // The mark is set in a frame of its own where others hold it too.
  if (rte_mbuf_refcnt_read(frame) > 1) {
    rte_mbuf* copy = Copy(frame);
    rte_pktmbuf_free(frame);
    if (copy == nullptr) return;
    frame = copy;
  }
  to.to_marked_.emplace(arrival_ns, std::pair(frame, from.index_));
}

}  // namespace pollux::sim
