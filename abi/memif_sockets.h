// The sockets by which the two processes of a memif know of each other.
#ifndef POLLUX_ABI_MEMIF_SOCKETS_H_
#define POLLUX_ABI_MEMIF_SOCKETS_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "stack/engine/worker.h"

namespace pollux::abi {

// While one is open anywhere, the other process has a link. DPDK makes them when it likes (a server
// accepts, a client connects again) and does not ask that they be closed on exec. Tell it of the
// port's events.
class MemifSockets : public engine::PortObserver {
 public:
  // Null for a port that is no memif.
  static std::unique_ptr<MemifSockets> Of(const std::string& port);
  explicit MemifSockets(std::string address) : address_(std::move(address)) {}

  // The link has come: programs that are started from now on do not get its socket.
  void OnPortEvent(uint8_t port_num, ibv_event_type event) override;
  // In a child, of those that there are at the fork.
  void LetGo() const;

 private:
  const std::string address_;
};

}  // namespace pollux::abi

#endif  // POLLUX_ABI_MEMIF_SOCKETS_H_
