#include "compat/runtime/port_link.h"

namespace pollux::compat {
namespace {

constexpr uint8_t kPhysicalLinkUp = 5;  // IB specification, PortInfo

}  // namespace

void PortLink::Show(ibv_port_attr* attr) const {
  if (!awaits_peer_ || attr->state != IBV_PORT_DOWN) return;
  attr->state = IBV_PORT_ACTIVE;
  attr->phys_state = kPhysicalLinkUp;
}

void PortLink::OnPortEvent(uint8_t port_num, ibv_event_type event) {
  awaits_peer_ = false;
  ibv_async_event told{};
  told.event_type = event;
  told.element.port_num = port_num;
  for (AsyncEvents* events : told_) {
    events->RemoveIf(
        [event](const ibv_async_event& waiting) { return waiting.event_type == event; });
    events->Push(told);
  }
}

}  // namespace pollux::compat
