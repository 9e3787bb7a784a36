#include "stack/io/steering/steering_rings.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <atomic>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace pollux::io {
namespace {

constexpr size_t kCacheLine = 64;
// The core that puts in and the core that takes out write lines of their own.
static_assert(offsetof(rte_ring, prod) % kCacheLine == 0);
static_assert(offsetof(rte_ring, cons) % kCacheLine == 0);
static_assert(offsetof(rte_ring, cons) >= offsetof(rte_ring, prod) + kCacheLine);
static_assert(sizeof(rte_ring) >= offsetof(rte_ring, cons) + kCacheLine);
static_assert(sizeof(rte_ring) % kCacheLine == 0);

rte_ring* MakeRing(uint32_t size) {
  static std::atomic<uint32_t> count{0};
  return rte_ring_create(absl::StrFormat("steer%u", count++).c_str(), size, SOCKET_ID_ANY,
                         RING_F_SP_ENQ | RING_F_SC_DEQ);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SteeringRings>> SteeringRings::Create(uint32_t workers,
                                                                     uint32_t queues) {
  std::unique_ptr<SteeringRings> rings(new SteeringRings(workers, queues));
  rings->forward_.resize(size_t{workers} * workers);
  rings->back_.resize(size_t{workers} * workers);
  for (uint32_t from = 0; from < workers; ++from) {
    for (uint32_t to = 0; to < workers; ++to) {
      if (from == to || (!rings->HasQueue(from) && rings->CarrierOf(from) != to)) continue;
      rte_ring*& forward = rings->forward_[from * workers + to];
      rte_ring*& back = rings->back_[to * workers + from];
      forward = MakeRing(rings->size_);
      back = MakeRing(rings->size_ * kBackFactor);
      if (forward != nullptr && back != nullptr) continue;
      return absl::ResourceExhaustedError(
          absl::StrFormat("no memory for the rings between %u workers (%s); give DPDK more (-m)",
                          workers, rte_strerror(rte_errno)));
    }
  }
  return rings;
}

void SteeringRings::Clear() {
  for (const auto* rings : {&forward_, &back_}) {
    for (rte_ring* ring : *rings) {
      void* frame = nullptr;
      while (ring != nullptr && rte_ring_dequeue(ring, &frame) == 0) {
        rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
      }
    }
  }
}

SteeringRings::~SteeringRings() {
  for (const auto* rings : {&forward_, &back_}) {
    for (rte_ring* ring : *rings) rte_ring_free(ring);
  }
}

}  // namespace pollux::io
