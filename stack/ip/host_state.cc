#include "stack/ip/host_state.h"

#include <rte_mbuf.h>

namespace pollux::ip {

using transport::Drop;
using transport::PollContext;

OutFrame BeginFrame(const HostState& host, const MacAddress& to, uint16_t vlan,
                    wire::EtherType type, size_t l3_bytes, PollContext& context) {
  const wire::EthernetHeader ethernet{
      .destination = to,
      .source = host.mac,
      .vlan_tci = vlan == kNoVlan ? std::nullopt : std::optional(vlan),
      .ether_type = type};
  OutFrame out;
  out.mbuf = context.egress.Allocate();
  if (out.mbuf == nullptr) return out;
  const size_t bytes = ethernet.bytes() + l3_bytes;
  uint8_t* frame = nullptr;
  if (bytes <= rte_pktmbuf_tailroom(out.mbuf)) {
    frame = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(out.mbuf, static_cast<uint16_t>(bytes)));
  }
  if (frame == nullptr) {
    context.counters.Count(Drop::kNoBuffer);
    rte_pktmbuf_free(out.mbuf);
    return {};
  }
  out.l3 = frame + wire::EmitEthernet(ethernet, frame);
  return out;
}

void SendFrame(const OutFrame& frame, PollContext& context) {
  context.egress.Push(frame.mbuf, context.now_ns);
}

}  // namespace pollux::ip
