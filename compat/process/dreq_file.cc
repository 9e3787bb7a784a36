#include "compat/process/dreq_file.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>

namespace pollux::compat {

int SendDreqs(const DreqFile& file, int socket) {
  int sent = 0;
  // Nothing is believed of a process that may have overwritten its memory.
  const uint32_t used = std::min(file.used.load(std::memory_order_acquire), DreqFile::kRecords);
  for (uint32_t i = 0; i < used; ++i) {
    const DreqFile::Record& record = file.records[i];
    const uint32_t bytes = record.bytes.load(std::memory_order_acquire);
    if (bytes == 0 || bytes > DreqFile::kMaxFrameBytes) continue;
    ++sent;
    static_cast<void>(send(socket, record.frame, bytes, 0));  // the next round repeats it
  }
  return sent;
}

void SendDreqsAtLast(const DreqFile& file, int socket) {
  timespec pause{0, kDreqPauseMs * 1'000'000L};
  for (int round = 0; SendDreqs(file, socket) > 0 && ++round < kDreqRounds;) {
    nanosleep(&pause, nullptr);
    pause.tv_nsec *= 2;
  }
}

}  // namespace pollux::compat
