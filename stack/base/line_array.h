// Arrays that share no cache line with other memory.
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

// For memory that one core writes with every packet. It begins and ends at a cache line boundary,
// so that neighbouring memory that another core uses is in other cache lines.
template <class T>
using LineArray = std::unique_ptr<T[], LineArrayDeleter>;

// Allocates `count` elements and value-initializes the first `made`. The others are uninitialized
// and, as long as a page of them is never written, take no memory. Returns null if memory is short.
// Callers must handle that, since peers and programs choose `count`.
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
