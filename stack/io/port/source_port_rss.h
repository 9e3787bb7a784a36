// Makes a NIC's receive-side scaling (RSS) choose the queue by the UDP source port.
#ifndef POLLUX_STACK_IO_PORT_SOURCE_PORT_RSS_H_
#define POLLUX_STACK_IO_PORT_SOURCE_PORT_RSS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

struct rte_eth_rss_reta_entry64;

namespace pollux::io {

// Of the UDP source port, the lowest bits. Senders are free to choose the port, and Pollux puts the
// highest bits of the destination queue pair number there (transport::FlowSourcePort()), which name
// the worker. So the packets of a Pollux peer arrive at the queue of their worker. Those of other
// peers are distributed over the queues, and handed over (Steering).
inline constexpr uint8_t kRssPortBits = 4;

// A key of `bytes` bytes for the Toeplitz hash over addresses and ports, with which the lowest
// kRssPortBits of a packet's hash are those of its source port in reverse order; over IPv6 they are
// XORed with the lowest bits of the source address's byte kRssAddressByte. Empty if `bytes` are too
// few.
std::vector<uint8_t> RssKey(size_t bytes);
inline constexpr size_t kRssAddressByte = 9;

// A redirection table of `size` entries that directs the packets of worker i to queue i % `queues`.
// Empty if `size` is too small.
std::vector<rte_eth_rss_reta_entry64> RssTable(uint16_t size, uint16_t queues);

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_SOURCE_PORT_RSS_H_
