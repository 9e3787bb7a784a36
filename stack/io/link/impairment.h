// Impairs a link on purpose: loss, duplication, reordering and corruption.
#ifndef POLLUX_STACK_IO_LINK_IMPAIRMENT_H_
#define POLLUX_STACK_IO_LINK_IMPAIRMENT_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "stack/base/random.h"
#include "stack/io/link/link.h"

struct rte_mempool;

namespace pollux::io {

// Probabilities per frame, each in [0, 1], applied in each direction.
struct ImpairmentOptions {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  uint64_t seed = 1;

  // Parses "loss=P,dup=P,reorder=P,corrupt=P,seed=N": any subset, in any order. InvalidArgument
  // names the wrong part and what is allowed.
  static absl::StatusOr<ImpairmentOptions> Parse(const std::string& text);
  bool Any() const { return loss > 0 || duplicate > 0 || reorder > 0 || corrupt > 0; }
};

struct ImpairmentCounters {
  uint64_t passed = 0;  // passed on, including duplicates and corrupted frames
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t copy_failed = 0;  // duplication or corruption skipped because the pool was empty
};

// Owned by the worker that owns the link below. The same seed repeats the same impairments for the
// same frames and times. Takes no heap memory after construction.
//
// Corruption flips 1 to 8 bits within one byte of a copy of the frame, which any CRC-32 detects. It
// does not change the Ethernet header and affects only IP packets: ARP has no checksum, so
// corruption there could not be detected.
class Impairment : public Link {
 public:
  static constexpr uint16_t kMaxHeld = 16;         // delayed frames per direction
  static constexpr int kMaxOvertakers = 4;         // frames that overtake a delayed one
  static constexpr uint64_t kMaxHoldNs = 50'000;   // maximum delay
  static constexpr uint16_t kQueueCapacity = 256;  // frames ready to be passed on

  // `link` and `pool` (for the copies) are not owned and must outlive this object.
  Impairment(Link* link, const ImpairmentOptions& options, rte_mempool* pool);
  ~Impairment() override;
  Impairment(const Impairment&) = delete;
  Impairment& operator=(const Impairment&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // Frees every frame kept here. Call it at the end, before the pools are destroyed.
  void Clear();
  // The time when the next delayed frame is due even if no frame overtakes it; UINT64_MAX if none
  // is delayed. For virtual time.
  uint64_t deadline_ns() const;
  const ImpairmentCounters& receive_counters() const { return receive_.counters; }
  const ImpairmentCounters& send_counters() const { return send_.counters; }

 private:
  struct Held {
    rte_mbuf* frame;
    int overtakers;  // frames that may still overtake it
    uint64_t due_ns;
  };
  struct Direction {
    explicit Direction(uint64_t seed) : random(seed) {}
    Random random;
    ImpairmentCounters counters;
    uint16_t held_count = 0;
    uint16_t head = 0;  // of the queue
    uint16_t count = 0;
    std::array<Held, kMaxHeld> held;
    std::array<rte_mbuf*, kQueueCapacity> queue;

    // How many more frames can be accepted even if each is duplicated and all delayed frames become
    // due.
    uint16_t room() const { return (kQueueCapacity - count - held_count) / 2; }
    void Enqueue(rte_mbuf* frame);
  };

  void Admit(Direction& direction, rte_mbuf* frame, uint64_t now_ns);
  void Overtake(Direction& direction);
  void ReleaseDue(Direction& direction, uint64_t now_ns);
  rte_mbuf* Corrupted(Direction& direction, rte_mbuf* frame);
  void FlushSend(uint64_t now_ns);
  static void Clear(Direction& direction);

  Link* link_;
  ImpairmentOptions options_;
  rte_mempool* pool_;
  Direction receive_;
  Direction send_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_IMPAIRMENT_H_
