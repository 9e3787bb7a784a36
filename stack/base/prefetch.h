// Prefetches memory into the cache.
#ifndef POLLUX_STACK_BASE_PREFETCH_H_
#define POLLUX_STACK_BASE_PREFETCH_H_

#include <cstddef>
#include <cstdint>

namespace pollux {

inline constexpr size_t kCacheLineBytes = 64;

// Prefetches the cache lines from the one that holds `first` to the one that holds `last`. Only a
// hint: nothing is dereferenced, so the addresses need not be valid.
inline void PrefetchLines(const void* first, const void* last) {
  const auto end = reinterpret_cast<uintptr_t>(last);
  for (uintptr_t at = reinterpret_cast<uintptr_t>(first) & ~(kCacheLineBytes - 1); at <= end;
       at += kCacheLineBytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(at));
  }
}

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_PREFETCH_H_
