// The latest events of a queue pair or a connection, to be examined if it fails.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "stack/transport/diagnostics/counters.h"

namespace pollux::transport {

// The kind of an entry; it determines the meaning of `code` and `detail` in FlightEntry.
enum class FlightKind : uint8_t {
  kNone,
  kSent,      // opcode; payload bytes, or the syndrome of an acknowledgement
  kReceived,  // the same
  kDropped,   // opcode; Drop. Received, but not executed
  kQpState,   // ibv_qp_state
  kTimer,     // FlightTimer
  kFailed,    // ibv_wc_status of the work request that ended the queue pair
  kEvent,     // ibv_event_type of the request that ended it
  kUpper,     // this and later kinds are the upper layer's, which has texts for them
};
enum class FlightTimer : uint8_t {
  kAckTimeout,  // the local ACK timeout
  kProbe,
  kRnrOver,
};

// A run of packets of one kind with consecutive PSNs is one entry, so that the recorder covers more
// packets than it has entries. A run ends when the PSN wraps.
struct FlightEntry {
  uint64_t time_ns = 0;  // of the last packet
  FlightKind kind = FlightKind::kNone;
  uint8_t code = 0;
  uint16_t detail = 0;
  Psn psn;             // of the first packet
  uint32_t count = 0;  // at least 1
};

// Used on the core of the object that it records. Takes no heap memory and reads no clock; old
// entries are overwritten.
class FlightRecorder {
 public:
  static constexpr uint32_t kEntries = 64;  // 1.5 KiB: some round trips of a busy queue pair

  // A packet that continues the run of the newest entry only moves the end of the run.
  void Packet(FlightKind kind, uint8_t opcode, Psn psn, uint16_t detail, uint64_t now_ns) {
    const uint64_t word = Word(kind, opcode, psn, detail);
    if (word != follows_) Begin(word);
    follows_ = word + 1;
    run_ns_ = now_ns;
  }
  // `count` packets with consecutive PSNs that do not wrap, at least one.
  void Packets(FlightKind kind, uint8_t opcode, Psn first, uint16_t detail, uint32_t count,
               uint64_t now_ns) {
    Packet(kind, opcode, first, detail, now_ns);
    follows_ += count - 1;
  }
  // Consecutive drops for one reason are one entry, with the last one's opcode and PSN.
  void Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns);
  void Note(FlightKind kind, uint8_t code, uint16_t detail, uint64_t now_ns);

  // The recorded entries, oldest first.
  std::vector<FlightEntry> Entries() const;

 private:
  // From the lowest bit: PSN 24, unused 1, code 8, detail 16, kind 8. Adding 1 to the last PSN sets
  // the unused bit, which no packet has, so that a run ends there.
  static constexpr int kCodeShift = 25;
  static constexpr int kDetailShift = 33;
  static constexpr int kKindShift = 49;

  struct Slot {
    uint64_t word = 0;  // of the first packet
    uint64_t time_ns = 0;
    uint32_t count = 0;
  };

  static constexpr uint64_t Word(FlightKind kind, uint8_t code, Psn psn, uint16_t detail) {
    return uint64_t{psn.value()} | uint64_t{code} << kCodeShift | uint64_t{detail} << kDetailShift |
           uint64_t{static_cast<uint8_t>(kind)} << kKindShift;
  }
  static FlightEntry EntryOf(const Slot& slot);
  // Stores the newest entry with the others, and begins another one. The caller sets its other
  // members.
  void Begin(uint64_t word) {
    slots_[next_++ % kEntries] = {.word = run_word_,
                                  .time_ns = run_ns_,
                                  .count = static_cast<uint32_t>(follows_ - run_word_)};
    run_word_ = word;
  }

  // The newest entry; before there is one, its count is 0.
  uint64_t follows_ = 0;   // the word that continues it; the difference to run_word_ is its count
  uint64_t run_word_ = 0;  // of its first packet
  uint64_t run_ns_ = 0;    // of its last packet
  uint32_t next_ = 0;      // where it will be stored; not reduced modulo kEntries
  std::array<Slot, kEntries> slots_{};
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_
