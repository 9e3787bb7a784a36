#include "abi/stand_in_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace pollux::abi {
namespace {

bool (*is_registered)(const void* address) = nullptr;
uintptr_t page_bytes = 0;
struct sigaction taken_before;

// Whether there is a page now, another thread's perhaps.
bool PutPage(const void* address) {
  void* const page =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~(page_bytes - 1));
  return mmap(page, page_bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page ||
         errno == EEXIST;
}

void PassOn(int number, siginfo_t* info, void* context) {
  const struct sigaction taker = taken_before;
  if ((taker.sa_flags & SA_RESETHAND) != 0) {
    taken_before.sa_flags = 0;
    taken_before.sa_handler = SIG_DFL;
  }
  if ((taker.sa_flags & SA_SIGINFO) != 0) {
    taker.sa_sigaction(number, info, context);
  } else if (taker.sa_handler != SIG_DFL && taker.sa_handler != SIG_IGN) {
    taker.sa_handler(number);
  } else {
    // The instruction is repeated and ends the process, as it would have; a signal that somebody
    // has sent does not come again by itself.
    sigaction(number, &taken_before, nullptr);
    if (info->si_code <= 0) raise(number);
  }
}

void OnFault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const bool mended =
      info->si_code == SEGV_MAPERR && is_registered(info->si_addr) && PutPage(info->si_addr);
  errno = error;
  if (!mended) PassOn(number, info, context);
}

}  // namespace

bool UseStandInPages(bool (*is_registered_now)(const void* address)) {
  is_registered = is_registered_now;
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (sigaction(SIGSEGV, nullptr, &taken_before) != 0) return false;
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  // What is blocked in here is what who took it before wants blocked.
  action.sa_mask = taken_before.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (taken_before.sa_flags & (SA_NODEFER | SA_RESTART));
  return sigaction(SIGSEGV, &action, nullptr) == 0;
}

}  // namespace pollux::abi
