#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::transport {

void FlightRecorder::EndRun() {
  if (follows_ == kNoRun) return;
  newest().count = static_cast<uint32_t>(follows_ - run_word_);
  newest().time_ns = run_ns_;
  follows_ = kNoRun;
}

void FlightRecorder::BeginRun(uint64_t word, uint64_t now_ns) {
  EndRun();
  slots_[next_++ % kEntries] = {.word = word};
  run_word_ = word;
  follows_ = word + 1;
  run_ns_ = now_ns;
}

void FlightRecorder::Note(FlightKind kind, uint8_t code, uint16_t detail, uint64_t now_ns) {
  EndRun();
  slots_[next_++ % kEntries] = {
      .word = Word(kind, code, Psn(), detail), .time_ns = now_ns, .count = 1};
}

void FlightRecorder::Dropped(uint8_t opcode, Psn psn, Drop reason, uint64_t now_ns) {
  EndRun();
  const auto detail = static_cast<uint16_t>(reason);
  const FlightEntry last = EntryOf(newest());
  const bool flood = last.kind == FlightKind::kDropped && last.detail == detail;
  if (!flood) ++next_;
  newest() = {.word = Word(FlightKind::kDropped, opcode, psn, detail),
              .time_ns = now_ns,
              .count = flood ? last.count + 1 : 1};
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
  FlightRecorder ended = *this;
  ended.EndRun();
  std::vector<FlightEntry> entries;
  for (uint32_t i = 0; i < kEntries; ++i) {
    const Slot& slot = ended.slots_[(next_ + i) % kEntries];
    if (slot.count > 0) entries.push_back(EntryOf(slot));
  }
  return entries;
}

}  // namespace pollux::transport
