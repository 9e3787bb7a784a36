#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::transport {

void FlightRecorder::Note(FlightKind kind, uint8_t code, uint16_t detail, uint64_t now_ns) {
  Packet(kind, code, Psn(), detail, now_ns);
}

void FlightRecorder::Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns) {
  const auto detail = static_cast<uint16_t>(reason);
  const uint64_t word = Word(FlightKind::kDropped, opcode, psn, detail);
  const FlightEntry last = EntryOf({.word = run_word_, .time_ns = run_ns_, .count = 0});
  const bool flood = last.kind == FlightKind::kDropped && last.detail == detail;
  const uint64_t count = flood ? follows_ - run_word_ + 1 : 1;
  if (flood) {
    run_word_ = word;
  } else {
    Begin(word);
  }
  follows_ = word + count;
  run_ns_ = now_ns;
}

FlightEntry FlightRecorder::EntryOf(const Slot& slot) {
  return {.time_ns = slot.time_ns,
          .kind = static_cast<FlightKind>(slot.word >> kKindShift),
          .code = static_cast<uint8_t>(slot.word >> kCodeShift),
          .detail = static_cast<uint16_t>(slot.word >> kDetailShift),
          .psn = Psn(static_cast<uint32_t>(slot.word)),
          .count = slot.count};
}

std::vector<FlightEntry> FlightRecorder::Entries() const {
  FlightRecorder all = *this;
  all.Begin(0);
  std::vector<FlightEntry> entries;
  for (uint32_t i = 0; i < kEntries; ++i) {
    const Slot& slot = all.slots_[(all.next_ + i) % kEntries];
    if (slot.count > 0) entries.push_back(EntryOf(slot));
  }
  return entries;
}

}  // namespace pollux::transport
