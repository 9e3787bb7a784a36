#include "compat/process/oom_reserve.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "stack/base/memory_reserve.h"

namespace pollux::compat {
namespace {

// The heap grows by a mebibyte where it cannot grow in place.
constexpr size_t kMoreBytes = 2 << 20;

// Of a MemoryFor. Not in it: a signal handler may leave a call without its end, and other frames
// then lie where it was.
struct Held {
  void* mapped;
  size_t bytes;
};

// The thread's, from the outermost one to the innermost.
struct Within {
  std::array<Held, MemoryFor::kMaxWithin> held;
  size_t count;
};

bool (*thread_drives)() = nullptr;
std::new_handler of_program = nullptr;
thread_local Within within{};

// Null when there is no room. Not of the heap, whose thresholds change with what is freed there.
void* Map(size_t bytes) {
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

// False when it has nothing (more).
bool GiveUp(Held& held) {
  void* const mapped = std::exchange(held.mapped, nullptr);
  return mapped != nullptr && munmap(mapped, held.bytes) == 0;
}

void LeaveTo(size_t count) {
  while (within.count > count) GiveUp(within.held[--within.count]);
}

// Operator new tries again when this returns.
void OnMemoryShort() {
  for (size_t i = within.count; i > 0; --i) {
    if (GiveUp(within.held[i - 1])) return;
  }
  const bool drives = thread_drives();
  if ((within.count > 0 || drives) && MemoryReserve::GiveUpPiece()) return;
  if (of_program == nullptr || drives) std::__throw_bad_alloc();
  of_program();
}

}  // namespace

void KeepOomReserve(bool (*drives)()) {
  if (thread_drives != nullptr) return;
  thread_drives = drives;
  MemoryReserve::Fill();
  of_program = std::get_new_handler();
  std::set_new_handler(OnMemoryShort);
}

MemoryFor::MemoryFor(size_t bytes)
    : place_(std::min(within.count, kMaxWithin - 1)), there_(MemoryReserve::Fill()) {
  LeaveTo(place_);
  Held& held = within.held[within.count++];
  held = {nullptr, bytes + kMoreBytes};
  if (there_ && bytes > 0) {
    held.mapped = Map(held.bytes);
    there_ = held.mapped != nullptr;
  }
  if (!there_) errno = ENOMEM;
}

MemoryFor::~MemoryFor() {
  const int error = errno;
  LeaveTo(place_);
  errno = error;
}

}  // namespace pollux::compat
