#include "abi/memif_sockets.h"

#include "abi/descriptors.h"
#include "stack/net/devargs.h"

namespace pollux::abi {
namespace {

constexpr char kDefaultAddress[] = "/run/memif.sock";  // DPDK's, of the driver's argument "socket"

}  // namespace

std::unique_ptr<MemifSockets> MemifSockets::Of(const std::string& port) {
  const absl::StatusOr<net::Devargs> devargs = net::Devargs::Parse(port);
  if (!devargs.ok() || devargs->driver() != net::Driver::kMemif) return nullptr;
  return std::make_unique<MemifSockets>(devargs->Get("socket").value_or(kDefaultAddress));
}

void MemifSockets::OnPortEvent(uint8_t /*port_num*/, ibv_event_type /*event*/) {
  CloseOnExec(SocketsAt(address_));
}

void MemifSockets::LetGo() const { abi::LetGo(SocketsAt(address_)); }

}  // namespace pollux::abi
