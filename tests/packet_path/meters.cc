#include "tests/packet_path/meters.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"

// Since Linux 5.11; not in the headers of every distribution.
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POLLUX_OWN_MALLOC 0
#else
#define POLLUX_OWN_MALLOC 1
#endif

namespace pollux::packet_path {
namespace {

// linux/syscall_user_dispatch.h
constexpr char kAllow = 0;
constexpr char kBlock = 1;

// Read by the kernel at each system call of the thread that has asked for it.
volatile char g_selector = kAllow;
volatile uint64_t g_system_calls = 0;
volatile long g_last_system_call = -1;

thread_local bool t_counting = false;
thread_local uint64_t t_allocations = 0;
thread_local uint64_t t_last_bytes = 0;

// Counts the call and makes it after all. The selector stays open, since the return from here is a
// system call too.
void OnSystemCall(int, siginfo_t* info, void* context) {
  g_selector = kAllow;
  g_system_calls = g_system_calls + 1;
  g_last_system_call = info->si_syscall;
  const int saved = errno;
  greg_t* regs = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long result = syscall(info->si_syscall, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX],
                              regs[REG_R10], regs[REG_R8], regs[REG_R9]);
  regs[REG_RAX] = result == -1 ? -errno : result;
  errno = saved;
}

bool Dispatch(bool on) {
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, on ? PR_SYS_DISPATCH_ON : PR_SYS_DISPATCH_OFF, 0, 0,
               on ? &g_selector : nullptr) == 0;
}

#if POLLUX_OWN_MALLOC
void CountAllocation(size_t bytes) {
  if (!t_counting) return;
  ++t_allocations;
  t_last_bytes = bytes;
}
#endif

}  // namespace

absl::Status Meters::Available() {
#if POLLUX_OWN_MALLOC
  if (Dispatch(true)) {
    Dispatch(false);
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("system calls cannot be counted: this kernel has no syscall user dispatch "
                   "(Linux 5.11, x86), error ",
                   errno));
#else
  return absl::UnimplementedError("allocations cannot be counted: a sanitizer's allocator is used");
#endif
}

Meters::Meters() {
  struct sigaction action = {};
  action.sa_sigaction = &OnSystemCall;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  Dispatch(true);
}

Meters::~Meters() {
  Stop();
  Dispatch(false);
  signal(SIGSYS, SIG_DFL);
}

void Meters::Start() {
  g_system_calls = 0;
  g_last_system_call = -1;
  t_allocations = t_last_bytes = 0;
  t_counting = true;
  g_selector = kBlock;
}

void Meters::Mark() { g_selector = kBlock; }

void Meters::Stop() {
  g_selector = kAllow;
  t_counting = false;
}

uint64_t Meters::allocations() const { return t_allocations; }
uint64_t Meters::system_calls() const { return g_system_calls; }
long Meters::last_system_call() const { return g_last_system_call; }
uint64_t Meters::last_allocation_bytes() const { return t_last_bytes; }

}  // namespace pollux::packet_path

#if POLLUX_OWN_MALLOC
// In front of glibc's own, for this program and every library that it loads. Clang hides even these
// from the libraries by -fvisibility=hidden.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  pollux::packet_path::CountAllocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  pollux::packet_path::CountAllocation(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  pollux::packet_path::CountAllocation(bytes);
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  pollux::packet_path::CountAllocation(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  pollux::packet_path::CountAllocation(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  pollux::packet_path::CountAllocation(bytes);
  void* memory = __libc_memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}  // extern "C"
#pragma GCC visibility pop
#endif
