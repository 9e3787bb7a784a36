#include "compat/process/fatal_signals.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pollux::compat {
namespace {

constexpr uintptr_t kHugePageBytes = 2 << 20, kGiganticPageBytes = 1 << 30;  // of x86-64

bool (*is_registered)(const void* address) = nullptr;
void (*before_end_of_process)() = nullptr;
uintptr_t page_bytes = 0;
struct sigaction taken_before[2];  // of SIGSEGV and SIGBUS

struct sigaction& TakenBefore(int number) {
  return taken_before[number == SIGBUS ? 1 : 0];
}

// A line of /proc/self/maps, such as "7f00-7f01 rw-s 00002000 fe:00 247134    /var/data".
struct Mapping {
  uintptr_t start = 0, end = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;  // 0: anonymous memory
  const char* path = "";
};

template <class Number>
void TakeNumber(std::string_view& text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  text.remove_prefix(std::min(text.size(), size_t{1}));  // "-" or " "
}

void SkipField(std::string_view& text) {
  text.remove_prefix(std::min(text.size(), text.find(' ')));
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
}

// `line` is followed by a null byte.
Mapping ParseMapping(std::string_view line) {
  Mapping mapping;
  TakeNumber(line, 16, mapping.start);
  TakeNumber(line, 16, mapping.end);
  SkipField(line);  // rights
  TakeNumber(line, 16, mapping.offset);
  SkipField(line);  // device
  TakeNumber(line, 10, mapping.inode);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  mapping.path = line.data();
  return mapping;
}

// The mapping that contains `address`; an empty one if it cannot be found. Called by one thread at
// a time.
Mapping FindMapping(uintptr_t address) {
  static char text[2 * PATH_MAX];
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  Mapping mapping;
  size_t held = 0;
  for (ssize_t got; (got = read(maps, text + held, sizeof text - held)) > 0;) {
    held += static_cast<size_t>(got);
    size_t begin = 0;
    while (auto* end = static_cast<char*>(std::memchr(text + begin, '\n', held - begin))) {
      *end = '\0';
      mapping = ParseMapping({text + begin, end});
      if (address >= mapping.start && address < mapping.end) break;
      mapping = {};
      begin = static_cast<size_t>(end - text) + 1;
    }
    if (mapping.end != 0) break;
    held -= begin;
    std::memmove(text, text + begin, held);
  }
  if (maps >= 0) close(maps);
  return mapping;
}

// Whether the page is of anonymous memory or inside its file: SIGBUS then says that its contents
// cannot be read or stored. False where that cannot be found out. Devices are not compared: those
// of btrfs differ in the two places.
bool HasContents(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Mapping mapping = FindMapping(at);
  if (mapping.end == 0) return false;
  if (mapping.inode == 0) return true;
  const uintptr_t page = at & ~(page_bytes - 1);  // the last one may be only partly in its file
  struct stat file {};
  return stat(mapping.path, &file) == 0 && file.st_ino == mapping.inode &&
         mapping.offset + (page - mapping.start) < static_cast<uint64_t>(file.st_size);
}

// Whether there is a page now, another thread's perhaps.
bool PutPage(const void* address, int in_place) {
  // A mapping of huge pages refuses smaller ones with EINVAL.
  for (const uintptr_t bytes : {page_bytes, kHugePageBytes, kGiganticPageBytes}) {
    void* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~(bytes - 1));
    if (mmap(page, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | in_place, -1, 0) ==
            page ||
        errno == EEXIST) {
      return true;
    }
    if (in_place != MAP_FIXED || errno != EINVAL) break;
  }
  return false;
}

bool IsDefault(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

// The instruction is repeated and ends the process, as without Pollux; a signal that somebody has
// sent, as abort() does, does not come again by itself.
void RepeatUnder(const struct sigaction& action, int number, const siginfo_t& info) {
  sigaction(number, &action, nullptr);
  if (info.si_code <= 0) raise(number);
}

void PassOn(int number, siginfo_t* info, void* context) {
  struct sigaction& before = TakenBefore(number);
  const struct sigaction taker = before;
  if ((taker.sa_flags & SA_RESETHAND) != 0) {
    before.sa_flags = 0;
    before.sa_handler = SIG_DFL;
  }
  if ((taker.sa_flags & SA_SIGINFO) != 0) {
    taker.sa_sigaction(number, info, context);
  } else if (taker.sa_handler != SIG_DFL && taker.sa_handler != SIG_IGN) {
    taker.sa_handler(number);
  } else {
    if (IsDefault(taker)) before_end_of_process();
    RepeatUnder(before, number, *info);
  }
}

bool Mend(int number, const siginfo_t& info) {
  const bool no_mapping = number == SIGSEGV && info.si_code == SEGV_MAPERR;
  const bool no_page = number == SIGBUS && info.si_code == BUS_ADRERR;
  if ((!no_mapping && !no_page) || !is_registered(info.si_addr)) return false;
  if (no_page && HasContents(info.si_addr)) return false;
  return PutPage(info.si_addr, no_page ? MAP_FIXED : MAP_FIXED_NOREPLACE);
}

void OnFault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const bool mended = Mend(number, *info);
  errno = error;
  if (!mended) PassOn(number, info, context);
}

void OnUnhandled(int number, siginfo_t* info, void*) {
  before_end_of_process();
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  RepeatUnder(action, number, *info);
}

// Unless the program handles or ignores it.
bool TakeUnhandled(int number) {
  struct sigaction action {};
  if (sigaction(number, nullptr, &action) != 0) return false;
  if (!IsDefault(action)) return true;
  action.sa_sigaction = &OnUnhandled;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(number, &action, nullptr) == 0;
}

bool Take(int number) {
  struct sigaction& before = TakenBefore(number);
  if (sigaction(number, nullptr, &before) != 0) return false;
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  // What is blocked in here is what who took it before wants blocked.
  action.sa_mask = before.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (before.sa_flags & (SA_NODEFER | SA_RESTART));
  return sigaction(number, &action, nullptr) == 0;
}

}  // namespace

bool InstallFatalSignalHandlers(bool (*is_registered_now)(const void* address),
                                void (*before_end)()) {
  is_registered = is_registered_now;
  before_end_of_process = before_end;
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return Take(SIGSEGV) && Take(SIGBUS) && TakeUnhandled(SIGABRT) && TakeUnhandled(SIGFPE) &&
         TakeUnhandled(SIGILL);
}

}  // namespace pollux::compat
