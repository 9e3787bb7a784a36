// A filter that the kernel runs on a packet socket, so that a process gets only its own RoCE
// packets.
#ifndef POLLUX_STACK_IO_PORT_PACKET_FILTER_H_
#define POLLUX_STACK_IO_PORT_PACKET_FILTER_H_

#include <linux/filter.h>

#include <vector>

#include "stack/base/qpn_layout.h"

namespace pollux::io {

// Returns a classic BPF program (Documentation/networking/filter.rst) that accepts the untagged
// RoCEv2 packets to queue pair numbers that `layout` holds, to queue pair 1 and to the multicast
// queue pair number. It rejects frames to the MAC address of all zeros, which the kernel sends over
// lo for any user.
std::vector<sock_filter> RocePacketFilter(const QpnLayout& layout);

// Attaches a filter to a packet socket. Returns whether the kernel accepts it.
bool AttachPacketFilter(int socket, const std::vector<sock_filter>& filter);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_PACKET_FILTER_H_
