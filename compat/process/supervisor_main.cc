// The supervisor of a program that `pollux run` has started: waits for the program's end, whatever
// its way, and sends the DREQs of the connections that it has not ended itself. The descriptors
// that it is given are all it has (dreq_file.h); every signal that can be blocked is.
#include <poll.h>
#include <sys/mman.h>

#include <cerrno>

#include "compat/process/dreq_file.h"

int main() {
  using pollux::compat::DreqFile;
  // Pages that the program writes later are seen here too.
  void* const mapped =
      mmap(nullptr, sizeof(DreqFile), PROT_READ, MAP_SHARED, pollux::compat::kSupervisorFile, 0);
  if (mapped == MAP_FAILED) return 1;
  pollfd end{pollux::compat::kSupervisedEnd, 0, 0};  // POLLHUP comes unasked
  while (poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  pollux::compat::SendDreqsAtLast(*static_cast<const DreqFile*>(mapped),
                                  pollux::compat::kSupervisorSocket);
  return 0;
}
