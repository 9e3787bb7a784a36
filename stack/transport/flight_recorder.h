// The last of what happened to a queue pair or a connection, to be read when it fails.
#ifndef POLLUX_STACK_TRANSPORT_FLIGHT_RECORDER_H_
#define POLLUX_STACK_TRANSPORT_FLIGHT_RECORDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "stack/transport/counters.h"

namespace pollux::transport {

// What a line of the record is about; `code` and `detail` of FlightEntry by kind.
enum class FlightKind : uint8_t {
  kNone,
  kSent,      // opcode; payload bytes, or the syndrome of an acknowledgement
  kReceived,  // the same
  kDropped,   // opcode; Drop. Received, but not for the queue pair to act on
  kQpState,   // ibv_qp_state
  kTimer,     // FlightTimer
  kFailed,    // ibv_wc_status of the work request that the queue pair ended with
  kEvent,     // ibv_event_type of the request that it ended with
  kUpper,     // this one and those after it belong to who sits on top, who has their words
};
enum class FlightTimer : uint8_t {
  kAckTimeout,  // the local ACK timeout
  kProbe,
  kRnrOver,
};

// Packets of one kind with PSNs in a row are one entry, so that the ring reaches back further than
// it has entries.
struct FlightEntry {
  uint64_t time_ns = 0;  // of the last of them
  FlightKind kind = FlightKind::kNone;
  uint8_t code = 0;
  uint16_t detail = 0;  // 13 bits
  Psn psn;              // of the first of them
  uint16_t count = 0;   // at most kMaxRun
};

// Belongs to the core of what it records. Takes no heap and no clock; older entries are
// overwritten.
class FlightRecorder {
 public:
  static constexpr uint32_t kEntries = 64;  // 1 KiB: some round trips of a busy queue pair
  static constexpr uint16_t kMaxRun = 0xFFF;

  void Packet(FlightKind kind, uint8_t opcode, Psn psn, uint16_t detail, uint64_t now_ns) {
    const uint64_t word = Word(kind, opcode, psn, detail);
    Slot& last = slots_[(next_ - 1) % kEntries];
    const uint64_t count = last.word >> kCountShift;
    const uint64_t follows = ((last.word + count) & Psn::kMask) | (last.word & kSameMask);
    if (follows == word && count < kMaxRun) {
      last.word += kOne;
      last.time_ns = now_ns;
    } else {
      slots_[next_++ % kEntries] = {now_ns, word | kOne};
    }
  }
  // A flood of those for one reason is one entry, under the last one's opcode and PSN.
  void Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns);
  void Note(FlightKind kind, uint8_t code, uint16_t detail, uint64_t now_ns) {
    slots_[next_++ % kEntries] = {now_ns, Word(kind, code, Psn(), detail) | kOne};
  }

  // What is left of it, oldest first.
  std::vector<FlightEntry> Entries() const;

 private:
  // Two words, written whole. From the lowest bit: PSN 24, code 8, detail 13, kind 7, count 12.
  struct Slot {
    uint64_t time_ns = 0;
    uint64_t word = 0;
  };
  static constexpr int kCodeShift = 24;
  static constexpr int kDetailShift = 32;
  static constexpr int kKindShift = 45;
  static constexpr int kCountShift = 52;
  static constexpr uint64_t kOne = uint64_t{1} << kCountShift;
  static constexpr uint64_t kSameMask = (kOne - 1) & ~uint64_t{Psn::kMask};
  static constexpr uint16_t kDetailMask = 0x1FFF;
  static constexpr uint8_t kKindMask = 0x7F;

  static constexpr uint64_t Word(FlightKind kind, uint8_t code, Psn psn, uint16_t detail) {
    return uint64_t{psn.value()} | uint64_t{code} << kCodeShift |
           uint64_t{static_cast<uint16_t>(detail & kDetailMask)} << kDetailShift |
           uint64_t{static_cast<uint8_t>(kind)} << kKindShift;
  }

  uint32_t next_ = 0;  // runs freely
  std::array<Slot, kEntries> slots_{};
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_FLIGHT_RECORDER_H_
