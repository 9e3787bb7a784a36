// The sockets by which the two processes of a memif know of each other.
#ifndef POLLUX_COMPAT_RUNTIME_MEMIF_SOCKETS_H_
#define POLLUX_COMPAT_RUNTIME_MEMIF_SOCKETS_H_

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "stack/engine/loop/worker.h"

namespace pollux::compat {

// While one is open anywhere, the other process has a link. DPDK makes them when it likes (a server
// accepts, a client connects again) and does not ask that they be closed on exec. Tell it of the
// port's events.
class MemifSockets : public engine::PortObserver {
 public:
  // Of a port that is open. Null for one that is no memif.
  static std::unique_ptr<MemifSockets> Of(const std::string& port);
  explicit MemifSockets(std::string address) : address_(std::move(address)) {}

  // The link has come: programs that are started from now on do not get its socket.
  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;
  // In a child, of those that there are at the fork.
  void LetGo() const;
  // The file at which a server has been found, which DPDK removes only with the port. Another
  // process's that has taken its place stays.
  void RemoveFile() const;

 private:
  struct File {
    dev_t device;
    ino_t inode;
  };
  std::optional<File> FileNow() const;

  const std::string address_;
  std::optional<File> file_;  // of a server with a path
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_MEMIF_SOCKETS_H_
