#include "tests/bench/namespace_pair.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace pollux::bench {
namespace {

constexpr char kOwn[] = "/proc/thread-self/ns/net";

// A fresh namespace, held by the descriptor; -1 with errno.
int MakeNamespace() {
  int space = -1;
  int error = 0;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) == 0) space = open(kOwn, O_RDONLY | O_CLOEXEC);
    error = errno;
  }).join();
  errno = error;
  return space;
}

bool RunShell(const std::string& command) { return std::system(command.c_str()) == 0; }

// Of the veth end in the namespace that this thread is in. Without an address of IPv6, the kernel
// sends nothing on its own.
bool SetUp(const char* end, const char* address) {
  return RunShell(absl::StrCat("PATH=$PATH:/usr/sbin:/sbin; ip addr add ", address, "/30 dev ", end,
                               " && ip link set ", end,
                               " addrgenmode none up && ip link set lo up"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NamespacePair>> NamespacePair::Make() {
  std::unique_ptr<NamespacePair> pair(new NamespacePair);
  pair->first_ = MakeNamespace();
  if (pair->first_ >= 0) pair->second_ = MakeNamespace();
  if (pair->second_ < 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("network namespaces take root: ", std::string(strerror(errno))));
  }
  bool made = false;
  absl::Status status = pair->InFirst([&] {
    made = RunShell(absl::StrCat("PATH=$PATH:/usr/sbin:/sbin; ip link add ", kFirstEnd,
                                 " type veth peer name ", kSecondEnd, " netns /proc/", getpid(),
                                 "/fd/", pair->second_)) &&
           SetUp(kFirstEnd, "198.18.0.1");
  });
  if (status.ok() && made) {
    status = pair->InSecond([&] { made = SetUp(kSecondEnd, "198.18.0.2"); });
  }
  if (!status.ok()) return status;
  if (!made) return absl::PermissionDeniedError("no veth pair can be made");
  return pair;
}

NamespacePair::~NamespacePair() {
  for (const int space : {first_, second_}) {
    if (space >= 0) close(space);
  }
}

// A thread of its own, since there may be no way back (in a user namespace that does not own the
// first one).
absl::Status NamespacePair::In(int space, absl::FunctionRef<void()> work) {
  absl::Status status;
  std::thread([&] {
    if (setns(space, CLONE_NEWNET) != 0) {
      status = absl::ErrnoToStatus(errno, "a network namespace cannot be entered");
    } else {
      work();
    }
  }).join();
  return status;
}

}  // namespace pollux::bench
