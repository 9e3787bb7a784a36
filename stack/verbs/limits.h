// The limits of the verbs objects, as ibv_query_device reports them.
#ifndef POLLUX_STACK_VERBS_LIMITS_H_
#define POLLUX_STACK_VERBS_LIMITS_H_

#include <cstdint>

namespace pollux::verbs {

inline constexpr uint32_t kMaxWorkRequests = 16384;   // per send or receive queue, as rxe
inline constexpr uint32_t kMaxSge = 32;               // per work request, as rxe
inline constexpr uint32_t kMaxInline = 512;           // bytes of inline data, as rxe
inline constexpr uint32_t kMaxRdAtomic = 128;         // READs and atomics in flight per direction
inline constexpr uint64_t kMaxMessage = 1ull << 31;   // bytes; see also Psn::kWindow
inline constexpr uint32_t kMaxCqEntries = 4'194'304;  // as adapters; unused entries take no memory

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_LIMITS_H_
