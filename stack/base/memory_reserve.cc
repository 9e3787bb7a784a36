#include "stack/base/memory_reserve.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <new>

namespace pollux {
namespace {

constexpr size_t kPieceBytes = MemoryReserve::kBytes / MemoryReserve::kPieces;
constexpr uintptr_t kOfHeap = 1;  // in the address of a piece

std::array<std::atomic<uintptr_t>, MemoryReserve::kPieces> pieces{};
std::atomic<bool> is_kept{false};

// 0 when it cannot be had.
uintptr_t TakePiece() {
  void* const mapped =
      mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) return reinterpret_cast<uintptr_t>(mapped);
  // The heap may have memory that it cannot give back.
  void* const of_heap = std::malloc(kPieceBytes);
  return of_heap == nullptr ? 0 : reinterpret_cast<uintptr_t>(of_heap) | kOfHeap;
}

void Free(uintptr_t piece) {
  void* const memory = reinterpret_cast<void*>(piece & ~kOfHeap);
  if ((piece & kOfHeap) != 0) {
    std::free(memory);
  } else {
    munmap(memory, kPieceBytes);
  }
}

// Operator new tries again when this returns.
void OnMemoryShort() {
  if (!MemoryReserve::GiveUpPiece()) std::__throw_bad_alloc();
}

}  // namespace

std::atomic<uint32_t> MemoryReserve::missing_{0};
std::atomic<bool> MemoryReserve::may_fill_{true};

void MemoryReserve::Install() {
  if (std::get_new_handler() != nullptr) return;
  Fill();
  std::set_new_handler(OnMemoryShort);
}

bool MemoryReserve::Fill() {
  if (!may_fill_.load(std::memory_order_relaxed)) return false;
  if (!is_kept.exchange(true)) missing_.fetch_add(kPieces, std::memory_order_relaxed);
  for (std::atomic<uintptr_t>& piece : pieces) {
    if (piece.load(std::memory_order_relaxed) != 0) continue;
    const uintptr_t taken = TakePiece();
    if (taken == 0) return false;
    uintptr_t none = 0;
    if (piece.compare_exchange_strong(none, taken)) {
      missing_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      Free(taken);  // another thread was first
    }
  }
  return true;
}

bool MemoryReserve::GiveUpPiece() {
  for (std::atomic<uintptr_t>& piece : pieces) {
    const uintptr_t taken = piece.exchange(0);
    if (taken == 0) continue;
    missing_.fetch_add(1, std::memory_order_relaxed);
    Free(taken);
    return true;
  }
  return false;
}

}  // namespace pollux
