#include "compat/process/supervisor.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compat/process/dreq_file.h"
#include "compat/process/scoped_signal_block.h"
#include "stack/base/fd.h"

namespace pollux::compat {
namespace {

constexpr size_t kCloneStackBytes = 32 << 10;
constexpr int kMinSourceFd = 3;  // above those that the supervisor has

struct Birth {
  const char* program;
  int supervised, packet_socket, file;
  char* stack_top;  // of the second clone
  int error = 0;
};

// The two below run in the memory of the process that starts the supervisor, whose calling thread
// stands still meanwhile: system calls only, and not by execve(), which program_end.cc replaces.

int BecomeSupervisor(void* argument) {
  auto* const birth = static_cast<Birth*>(argument);
  setsid();
  dup2(birth->supervised, kSupervisedEnd);
  dup2(birth->packet_socket, kSupervisorSocket);
  dup2(birth->file, kSupervisorFile);
  syscall(SYS_close_range, kMinSourceFd, ~0U, 0);
  syscall(SYS_chdir, "/");
  char name[] = "pollux_supervisor";
  char* const argv[] = {name, nullptr};
  char* const environment[] = {nullptr};  // of the program's libraries it wants none
  syscall(SYS_execve, birth->program, argv, environment);
  birth->error = errno;
  return 1;
}

// Ends at once, so that the supervisor has another parent.
int StartAndEnd(void* argument) {
  auto* const birth = static_cast<Birth*>(argument);
  if (clone(BecomeSupervisor, birth->stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, birth) < 0) {
    birth->error = errno;
  }
  return 0;
}

constexpr char kNoDreqs[] = "peers will not receive a DREQ if this process is killed: ";

absl::Status CannotStart(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(kNoDreqs, what, ": ", std::strerror(error)));
}

// Whether orphans become children of this process. If it waited for all its children, it would wait
// for the supervisor, which ends only after it. For PID 1 a supervisor is of no use, either: the
// kernel kills all processes of the namespace with it.
bool AdoptsOrphans() {
  int subreaper = 0;
  return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper != 0);
}

// Where dup2() to the supervisor's numbers cannot meet it.
Fd Moved(int fd) { return Fd(fcntl(fd, F_DUPFD_CLOEXEC, kMinSourceFd)); }

absl::StatusOr<Fd> PacketSocket(unsigned interface_index) {
  // Of no protocol: it receives nothing.
  const Fd made(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(interface_index);
  if (!made.ok() ||
      bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return CannotStart("packet socket", errno);
  }
  return Moved(made.get());
}

}  // namespace

absl::StatusOr<HeldDescriptor> StartSupervisor(const std::string& program, int file_fd,
                                               unsigned interface_index) {
  if (AdoptsOrphans()) {
    return absl::UnavailableError(absl::StrCat(
        kNoDreqs, "it is PID 1 or a child subreaper, so a supervisor would become its child"));
  }
  absl::StatusOr<Fd> packet_socket = PacketSocket(interface_index);
  if (!packet_socket.ok()) return packet_socket.status();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart("pipe", errno);
  const Fd read_end(ends[0]), write_end(ends[1]);
  const Fd supervised = Moved(read_end.get()), file = Moved(file_fd);
  if (!supervised.ok() || !file.ok() || !packet_socket->ok()) return CannotStart("file", errno);

  const auto stacks = std::make_unique<char[]>(2 * kCloneStackBytes);
  Birth birth{.program = program.c_str(),
              .supervised = supervised.get(),
              .packet_socket = packet_socket->get(),
              .file = file.get(),
              .stack_top = stacks.get() + kCloneStackBytes};
  // A handler would run in two processes at once. The supervisor keeps the mask: who ends all
  // processes of a service together ends it last, with the program.
  const ScopedSignalBlock signals_blocked;
  // Without a signal at its end only waits with __WCLONE see it.
  const pid_t child =
      clone(StartAndEnd, stacks.get() + 2 * kCloneStackBytes, CLONE_VM | CLONE_VFORK, &birth);
  if (child < 0) return CannotStart("clone", errno);
  while (waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  if (birth.error != 0) return CannotStart(program.c_str(), birth.error);
  struct stat status {};
  // For good.
  const int held = fcntl(write_end.get(), F_DUPFD_CLOEXEC, kMinSourceFd);
  if (held < 0 || fstat(held, &status) != 0) return CannotStart("pipe", errno);
  return HeldDescriptor{held, status.st_dev, status.st_ino};
}

}  // namespace pollux::compat
