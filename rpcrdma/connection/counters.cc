#include "rpcrdma/connection/counters.h"

#include <iterator>
#include <numeric>
#include <string>

namespace pollux::rpcrdma {

uint64_t CallTimes::calls(uint32_t index) const {
  if (index < kLimits) return calls_[index];
  return std::accumulate(calls_.begin() + kLimits, calls_.end(), uint64_t{0});
}

void Counters::Visit(absl::FunctionRef<void(std::string_view, uint64_t)> visit) const {
  static constexpr struct {
    const char* name;
    uint64_t Counters::*value;
  } kCounters[] = {
      {"connections_established", &Counters::connections_established},
      {"connections_lost", &Counters::connections_lost},
      {"reconnects", &Counters::reconnects},
      {"short_messages", &Counters::short_messages},
      {"obsolete_messages", &Counters::obsolete_messages},
      {"calls_sent", &Counters::calls_sent},
      {"calls_sent_again", &Counters::calls_sent_again},
      {"replies_received", &Counters::replies_received},
      {"calls_failed", &Counters::calls_failed},
      {"bad_reply_headers", &Counters::bad_reply_headers},
      {"unknown_xids", &Counters::unknown_xids},
      {"late_replies", &Counters::late_replies},
      {"bad_reply_chunks", &Counters::bad_reply_chunks},
      {"bad_rpc_replies", &Counters::bad_rpc_replies},
      {"errors_received", &Counters::errors_received},
      {"remote_invalidations", &Counters::remote_invalidations},
      {"bad_invalidations", &Counters::bad_invalidations},
      {"connections_silent", &Counters::connections_silent},
      {"calls_received", &Counters::calls_received},
      {"replies_sent", &Counters::replies_sent},
      {"invalidations_sent", &Counters::invalidations_sent},
      {"unwanted_errors", &Counters::unwanted_errors},
      {"version_errors_sent", &Counters::version_errors_sent},
      {"chunk_errors_sent", &Counters::chunk_errors_sent},
      {"bad_calls", &Counters::bad_calls},
      {"eligibility_violations", &Counters::eligibility_violations},
      {"calls_refused", &Counters::calls_refused},
      {"replies_too_large", &Counters::replies_too_large},
      {"replies_dropped", &Counters::replies_dropped},
      {"duplicates_answered", &Counters::duplicates_answered},
      {"duplicates_joined", &Counters::duplicates_joined},
      {"duplicates_dropped", &Counters::duplicates_dropped},
      {"duplicates_refused", &Counters::duplicates_refused},
      {"calls_not_cached", &Counters::calls_not_cached},
      {"connections_stalled", &Counters::connections_stalled},
      {"unreachable_memory", &Counters::unreachable_memory},
      {"connections_refused", &Counters::connections_refused},
      {"bytes_read", &Counters::bytes_read},
      {"bytes_written", &Counters::bytes_written},
      {"bytes_copied", &Counters::bytes_copied},
  };
  // Every member, or a new one would never be seen.
  static_assert(sizeof(Counters) == sizeof(uint64_t) * std::size(kCounters) + sizeof(CallTimes));
  for (const auto& counter : kCounters) visit(counter.name, this->*counter.value);
  for (uint32_t i = 0; i <= CallTimes::kLimits; ++i) {
    const std::string limit =
        i < CallTimes::kLimits ? std::to_string(CallTimes::Limit(i)) : std::string("inf");
    visit("call_time_ns/" + limit, call_times.calls(i));
  }
  visit("call_time_ns/sum", call_times.sum_ns());
}

}  // namespace pollux::rpcrdma
