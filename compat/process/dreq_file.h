// The DREQs of a process's connections, in memory that it shares with its supervisor.
#ifndef POLLUX_COMPAT_PROCESS_DREQ_FILE_H_
#define POLLUX_COMPAT_PROCESS_DREQ_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pollux::compat {

// Written by the process, which may die at any instruction; read afterwards by the supervisor. All
// zeros: no DREQs.
struct DreqFile {
  static constexpr uint32_t kRecords = 16384;  // cm::ManagerConfig::max_ids
  static constexpr size_t kMaxFrameBytes = 348;

  struct Record {
    // The length of `frame`; 0 if the frame is missing or incomplete.
    std::atomic<uint32_t> bytes;
    uint8_t frame[kMaxFrameBytes];
  };

  // Records from this index on were never written, so their pages take no memory.
  std::atomic<uint32_t> used;
  Record records[kRecords];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// The file descriptors of a supervisor; it has no others.
inline constexpr int kSupervisedEnd = 0;  // a pipe whose other end the supervised process has open
inline constexpr int kSupervisorSocket = 1;  // the socket for SendDreqs()
inline constexpr int kSupervisorFile = 2;    // a DreqFile

// Sends each DREQ once and returns their number. `socket`: a packet socket that is bound to the
// interface.
int SendDreqs(const DreqFile& file, int socket);
// SendDreqsAtLast() sends the DREQs of a dead process several times, because the supervisor
// receives no replies.
inline constexpr int kDreqRounds = 4;
inline constexpr int kDreqPauseMs = 100;  // before the second round, and twice as long each time
void SendDreqsAtLast(const DreqFile& file, int socket);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DREQ_FILE_H_
