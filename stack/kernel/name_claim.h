// A name that one process at a time can hold, within a network namespace.
#ifndef POLLUX_STACK_KERNEL_NAME_CLAIM_H_
#define POLLUX_STACK_KERNEL_NAME_CLAIM_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "stack/base/fd.h"

namespace pollux::kernel {

// Held as the name of an abstract AF_UNIX socket (unix(7)), so that the kernel releases it when the
// process ends, however it ends. A program that the process executes does not inherit it; a forked
// child does until it closes the descriptor. Any user may claim any name. Makes system calls.
class NameClaim {
 public:
  // What the socket's name begins with, before the claim's own.
  static constexpr std::string_view kPrefix{"\0pollux/", 8};

  // AlreadyExists if a process holds the name, this one included.
  static absl::StatusOr<NameClaim> Take(const std::string& name);
  // Whether a process holds the name, this one included. True if the kernel does not say.
  static bool IsTaken(const std::string& name);

 private:
  explicit NameClaim(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_NAME_CLAIM_H_
