// The control sockets between the two processes of a memif.
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

// The other process has a link as long as such a socket is open in any process. DPDK opens them at
// any time (a server accepts, a client connects again), and without O_CLOEXEC. Register it as an
// observer of the port's events.
class MemifSockets : public engine::PortObserver {
 public:
  // For an open port. Returns null if it is not a memif.
  static std::unique_ptr<MemifSockets> Of(const std::string& port);
  explicit MemifSockets(std::string address) : address_(std::move(address)) {}

  // Sets close-on-exec on the sockets when the link has changed.
  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;
  // In a forked child: closes the sockets that existed at the fork.
  void LetGo() const;
  // Removes a server's socket file, which DPDK removes only when it closes the port. If another
  // process has replaced that file, the new file is kept.
  void RemoveFile() const;

 private:
  struct File {
    dev_t device;
    ino_t inode;
  };
  std::optional<File> FileNow() const;

  const std::string address_;
  std::optional<File> file_;  // set for a server with a path
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_MEMIF_SOCKETS_H_
