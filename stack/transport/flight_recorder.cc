#include "stack/transport/flight_recorder.h"

namespace pollux::transport {

void FlightRecorder::Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns) {
  Slot& last = slots_[(next_ - 1) % kEntries];
  const auto kind = static_cast<FlightKind>(last.word >> kKindShift & kKindMask);
  const uint64_t count = last.word >> kCountShift;
  if (kind != FlightKind::kDropped || count == kMaxRun ||
      (last.word >> kDetailShift & kDetailMask) != static_cast<uint64_t>(reason)) {
    slots_[next_++ % kEntries] = {
        now_ns, Word(FlightKind::kDropped, opcode, psn, static_cast<uint16_t>(reason)) | kOne};
    return;
  }
  last.time_ns = now_ns;
  last.word = Word(FlightKind::kDropped, opcode, psn, static_cast<uint16_t>(reason)) |
              (count + 1) << kCountShift;
}

std::vector<FlightEntry> FlightRecorder::Entries() const {
  std::vector<FlightEntry> entries;
  for (uint32_t i = 0; i < kEntries; ++i) {
    const Slot& slot = slots_[(next_ + i) % kEntries];
    if (slot.word == 0) continue;
    entries.push_back({.time_ns = slot.time_ns,
                       .kind = static_cast<FlightKind>(slot.word >> kKindShift & kKindMask),
                       .code = static_cast<uint8_t>(slot.word >> kCodeShift),
                       .detail = static_cast<uint16_t>(slot.word >> kDetailShift & kDetailMask),
                       .psn = Psn(static_cast<uint32_t>(slot.word)),
                       .count = static_cast<uint16_t>(slot.word >> kCountShift)});
  }
  return entries;
}

}  // namespace pollux::transport
