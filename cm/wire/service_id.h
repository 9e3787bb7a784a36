// Service IDs of RDMA IP CM: port space and port in one 64-bit number. Source: IB specification
// volume 1, annex A11.
#ifndef POLLUX_CM_WIRE_SERVICE_ID_H_
#define POLLUX_CM_WIRE_SERVICE_ID_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>

namespace pollux::cm {

struct ServiceId {
  rdma_port_space port_space = RDMA_PS_TCP;
  uint16_t port = 0;
  friend constexpr bool operator==(const ServiceId&, const ServiceId&) = default;

  // The port space numbers of rdma_cma.h are the upper half of the ID: 0x0106 for RDMA_PS_TCP.
  constexpr uint64_t ToWire() const { return static_cast<uint64_t>(port_space) << 16 | port; }

  // Returns nothing if the ID does not belong to RDMA IP CM.
  static constexpr std::optional<ServiceId> FromWire(uint64_t wire) {
    const auto port = static_cast<uint16_t>(wire);
    switch (wire >> 16) {
      case RDMA_PS_TCP:
        return ServiceId{RDMA_PS_TCP, port};
      case RDMA_PS_UDP:
        return ServiceId{RDMA_PS_UDP, port};
      case RDMA_PS_IB:
        return ServiceId{RDMA_PS_IB, port};
      default:
        return std::nullopt;
    }
  }
};

static_assert(ServiceId{RDMA_PS_TCP, 20049}.ToWire() == 0x0000000001064E51);

}  // namespace pollux::cm

#endif  // POLLUX_CM_WIRE_SERVICE_ID_H_
