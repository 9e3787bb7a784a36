// The DREQs of a process's connections, in memory that it shares with its supervisor.
#ifndef POLLUX_COMPAT_PROCESS_DREQ_FILE_H_
#define POLLUX_COMPAT_PROCESS_DREQ_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pollux::compat {

// Written by the process, at any instruction of which it may die; read by the supervisor after
// that. Zeros hold nothing.
struct DreqFile {
  static constexpr uint32_t kRecords = 16384;  // cm::ManagerConfig::max_ids
  static constexpr size_t kMaxFrameBytes = 348;

  struct Record {
    // A whole frame once this is not 0.
    std::atomic<uint32_t> bytes;
    uint8_t frame[kMaxFrameBytes];
  };

  // No record from there on was ever written: their pages stay untouched.
  std::atomic<uint32_t> used;
  Record records[kRecords];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// The descriptors that a supervisor is given, and all that it has open.
inline constexpr int kSupervisedEnd = 0;     // of a pipe, whose other end its process has open
inline constexpr int kSupervisorSocket = 1;  // as SendDreqs() takes
inline constexpr int kSupervisorFile = 2;    // a DreqFile

// Sends each of them once; how many. `socket`: a packet socket that is bound to the interface.
int SendDreqs(const DreqFile& file, int socket);
// For a process that is gone: several times, since none is answered to who sends them.
inline constexpr int kDreqRounds = 4;
inline constexpr int kDreqPauseMs = 100;  // before the second round, and twice as long each time
void SendDreqsAtLast(const DreqFile& file, int socket);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_PROCESS_DREQ_FILE_H_
