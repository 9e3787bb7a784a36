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
  if ((taken_before.sa_flags & SA_SIGINFO) != 0) {
    taken_before.sa_sigaction(number, info, context);
  } else if (taken_before.sa_handler != SIG_DFL && taken_before.sa_handler != SIG_IGN) {
    taken_before.sa_handler(number);
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
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(SIGSEGV, nullptr, &taken_before) == 0 &&
         sigaction(SIGSEGV, &action, nullptr) == 0;
}

}  // namespace pollux::abi
