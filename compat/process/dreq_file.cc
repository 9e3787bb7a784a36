#include "compat/process/dreq_file.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>

namespace pollux::compat {
namespace {

// Frames to the interface's own address are for another process on it, which receives them over lo
// (io::Loopback::ShareWith()).
ssize_t SendFrame(int socket, const uint8_t* frame, uint32_t bytes) {
  if (bytes < 2 * ETH_ALEN || !std::equal(frame, frame + ETH_ALEN, frame + ETH_ALEN)) {
    return send(socket, frame, bytes, 0);
  }
  constexpr int kLoIndex = 1;  // in every network namespace: LOOPBACK_IFINDEX of the kernel
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = kLoIndex;
  return sendto(socket, frame, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace

int SendDreqs(const DreqFile& file, int socket) {
  int sent = 0;
  // Nothing is believed of a process that may have overwritten its memory.
  const uint32_t used = std::min(file.used.load(std::memory_order_acquire), DreqFile::kRecords);
  for (uint32_t i = 0; i < used; ++i) {
    const DreqFile::Record& record = file.records[i];
    const uint32_t bytes = record.bytes.load(std::memory_order_acquire);
    if (bytes == 0 || bytes > DreqFile::kMaxFrameBytes) continue;
    ++sent;
    static_cast<void>(SendFrame(socket, record.frame, bytes));  // the next round repeats it
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
