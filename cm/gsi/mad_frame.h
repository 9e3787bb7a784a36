// A MAD to queue pair 1 as a whole frame, from Ethernet header to ICRC, to be sent without a queue
// pair.
#ifndef POLLUX_CM_GSI_MAD_FRAME_H_
#define POLLUX_CM_GSI_MAD_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "cm/wire/mad.h"
#include "stack/verbs/address_handle.h"
#include "stack/wire/bth.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ext_headers.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

namespace pollux::cm {

// The size with an 802.1Q tag and IPv6.
inline constexpr size_t kMaxMadFrameBytes = wire::kEthernetBytes + wire::kVlanTagBytes +
                                            wire::kIpv6Bytes + wire::kUdpBytes + wire::kBthBytes +
                                            wire::kDethBytes + kMadBytes + wire::kIcrcBytes;

// Writes at most kMaxMadFrameBytes and returns the number of bytes. The next hop of `path` must be
// resolved.
size_t EmitMadFrame(const verbs::AddressHandle& path, const MadBuffer& mad, uint8_t* frame);

}  // namespace pollux::cm

#endif  // POLLUX_CM_GSI_MAD_FRAME_H_
