// The last of what happened to a queue pair or a connection, to be read when it fails.
#ifndef POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_
#define POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "stack/base/types.h"
#include "stack/transport/diagnostics/counters.h"

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

// Packets of one kind with PSNs in a row, up to the wrap, are one entry, so that the ring reaches
// back further than it has entries.
struct FlightEntry {
  uint64_t time_ns = 0;  // of the last of them
  FlightKind kind = FlightKind::kNone;
  uint8_t code = 0;
  uint16_t detail = 0;
  Psn psn;             // of the first of them
  uint32_t count = 0;  // at least 1
};

// Belongs to the core of what it records. Takes no heap and no clock; older entries are
// overwritten.
class FlightRecorder {
 public:
  static constexpr uint32_t kEntries = 64;  // 1.5 KiB: some round trips of a busy queue pair

  // One that goes on with the run touches no entry: it only moves the end of the run.
  void Packet(FlightKind kind, uint8_t opcode, Psn psn, uint16_t detail, uint64_t now_ns) {
    const uint64_t word = Word(kind, opcode, psn, detail);
    if (word == follows_) [[likely]] {
      follows_ = word + 1;
      run_ns_ = now_ns;
    } else {
      BeginRun(word, now_ns);
    }
  }
  // A flood of those for one reason is one entry, under the last one's opcode and PSN.
  void Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns);
  void Note(FlightKind kind, uint8_t code, uint16_t detail, uint64_t now_ns);

  // What is left of it, oldest first.
  std::vector<FlightEntry> Entries() const;

 private:
  // From the lowest bit: PSN 24, none, code 8, detail 16, kind 8. Past the last PSN the bit in
  // between is set: no packet has it, and a run ends there.
  static constexpr int kCodeShift = 25;
  static constexpr int kDetailShift = 33;
  static constexpr int kKindShift = 49;
  static constexpr uint64_t kNoRun = 0;  // as no packet's word: its kind is not kNone

  struct Slot {
    uint64_t word = 0;  // of the first
    uint64_t time_ns = 0;
    uint32_t count = 0;
  };

  static constexpr uint64_t Word(FlightKind kind, uint8_t code, Psn psn, uint16_t detail) {
    return uint64_t{psn.value()} | uint64_t{code} << kCodeShift | uint64_t{detail} << kDetailShift |
           uint64_t{static_cast<uint8_t>(kind)} << kKindShift;
  }
  static FlightEntry EntryOf(const Slot& slot);
  Slot& newest() { return slots_[(next_ - 1) % kEntries]; }
  void BeginRun(uint64_t word, uint64_t now_ns);
  void EndRun();

  uint64_t follows_ = kNoRun;  // the word that goes on with the run of the newest entry
  uint64_t run_word_ = 0;      // of the run's first packet, so that no entry is read
  uint64_t run_ns_ = 0;        // of its last
  uint32_t next_ = 0;          // runs freely
  std::array<Slot, kEntries> slots_{};
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_DIAGNOSTICS_FLIGHT_RECORDER_H_
