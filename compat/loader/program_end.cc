// The calls by which a program ends, or another takes its place, without exit(3). What it has
// posted and Pollux holds leaves before, as an adapter would have sent it. Preloaded by `pollux
// run`, so that these are found before the C library's.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>

#include "compat/loader/export.h"

namespace {

std::atomic<void (*)()> send_before{nullptr};

void Send() {
  if (void (*const send)() = send_before.load(); send != nullptr) send();
}

// The C library's.
void (*next_quick_exit)(int status) = nullptr;
int (*next_execvpe)(const char* file, char* const argv[], char* const envp[]) = nullptr;
int (*next_fexecve)(int fd, char* const argv[], char* const envp[]) = nullptr;

template <class Function>
void Find(const char* name, Function** next) {
  if (*next == nullptr) *next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// When the library is loaded: in a forked child dlsym() may wait forever for the loader's lock, if
// another thread of its parent held it. Called again by each function that needs one of them,
// because the constructor of another library may call it earlier.
__attribute__((constructor)) void FindNext() {
  Find("quick_exit", &next_quick_exit);
  Find("execvpe", &next_execvpe);
  Find("fexecve", &next_fexecve);
}

// More than anybody writes out in a call. On the stack, since it may run in a child that shares
// this process's memory (vfork).
constexpr size_t kMaxArguments = 1024;

class Arguments {
 public:
  // Up to the null pointer that ends them, which is taken from the list too.
  Arguments(const char* first, va_list list) {
    argv_[0] = const_cast<char*>(first);
    for (size_t i = 0; argv_[i] != nullptr; argv_[++i] = va_arg(list, char*)) {
      if (i + 1 == argv_.size()) {
        too_many_ = true;
        return;
      }
    }
  }
  bool too_many() const { return too_many_; }
  char* const* argv() const { return argv_.data(); }

 private:
  std::array<char*, kMaxArguments + 1> argv_;
  bool too_many_ = false;
};

int Refuse() {
  errno = E2BIG;
  return -1;
}

}  // namespace

POLLUX_EXPORT void pollux_send_before_program_ends(void (*send)()) { send_before.store(send); }

POLLUX_EXPORT __attribute__((noreturn)) void _exit(int status) {
  Send();
  while (true) syscall(SYS_exit_group, status);
}

POLLUX_EXPORT __attribute__((noreturn)) void _Exit(int status) noexcept { _exit(status); }

POLLUX_EXPORT __attribute__((noreturn)) void quick_exit(int status) noexcept {
  Send();
  FindNext();
  next_quick_exit(status);
  _exit(status);
}

POLLUX_EXPORT int execve(const char* path, char* const argv[], char* const envp[]) noexcept {
  Send();
  return static_cast<int>(syscall(SYS_execve, path, argv, envp));
}

POLLUX_EXPORT int execv(const char* path, char* const argv[]) noexcept {
  return execve(path, argv, environ);
}

POLLUX_EXPORT int execvpe(const char* file, char* const argv[], char* const envp[]) noexcept {
  Send();
  FindNext();
  return next_execvpe(file, argv, envp);
}

POLLUX_EXPORT int execvp(const char* file, char* const argv[]) noexcept {
  return execvpe(file, argv, environ);
}

POLLUX_EXPORT int fexecve(int fd, char* const argv[], char* const envp[]) noexcept {
  Send();
  FindNext();
  return next_fexecve(fd, argv, envp);
}

POLLUX_EXPORT int execl(const char* path, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const Arguments arguments(first, list);
  va_end(list);
  return arguments.too_many() ? Refuse() : execve(path, arguments.argv(), environ);
}

POLLUX_EXPORT int execlp(const char* file, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const Arguments arguments(first, list);
  va_end(list);
  return arguments.too_many() ? Refuse() : execvpe(file, arguments.argv(), environ);
}

POLLUX_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  va_list list;
  va_start(list, first);
  const Arguments arguments(first, list);
  char** const envp = arguments.too_many() ? nullptr : va_arg(list, char**);
  va_end(list);
  return arguments.too_many() ? Refuse() : execve(path, arguments.argv(), envp);
}
