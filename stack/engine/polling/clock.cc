#include "stack/engine/polling/clock.h"

#include <rte_cycles.h>

namespace pollux::engine {

Clock::Clock() : Clock(rte_get_tsc_hz()) {}

Clock::Clock(uint64_t hz)
    : multiplier_(
          static_cast<uint64_t>((static_cast<unsigned __int128>(1'000'000'000) << kShift) / hz)) {}

uint64_t Clock::NowNs() const { return ToNs(rte_rdtsc()); }

}  // namespace pollux::engine
