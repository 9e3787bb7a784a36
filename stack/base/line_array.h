// Arrays on cache lines of their own.
#ifndef POLLUX_STACK_BASE_LINE_ARRAY_H_
#define POLLUX_STACK_BASE_LINE_ARRAY_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "stack/base/prefetch.h"

namespace pollux {

struct LineArrayDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

// What one core writes with every packet. It begins and ends with a cache line, so that what
// another core has beside it in memory lies on other lines.
template <class T>
using LineArray = std::unique_ptr<T[], LineArrayDeleter>;

// Of `count` elements, the first `made` of them zero or as their type makes them. The others hold
// nothing until they are written, and many of them take no memory before. Null if there is no
// memory for them: peers and programs choose how many there are.
template <class T>
LineArray<T> MakeLineArray(size_t count, size_t made) {
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kCacheLineBytes);
  const size_t lines =
      std::max<size_t>((count * sizeof(T) + kCacheLineBytes - 1) / kCacheLineBytes, 1);
  auto* elements = static_cast<T*>(std::aligned_alloc(kCacheLineBytes, lines * kCacheLineBytes));
  if (elements != nullptr) std::uninitialized_value_construct_n(elements, std::min(count, made));
  return LineArray<T>(elements);
}

template <class T>
LineArray<T> MakeLineArray(size_t count) {
  return MakeLineArray<T>(count, count);
}

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_LINE_ARRAY_H_
