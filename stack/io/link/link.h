// The wire as the stack sees it: bursts of frames in, bursts of frames out.
#ifndef POLLUX_STACK_IO_LINK_LINK_H_
#define POLLUX_STACK_IO_LINK_LINK_H_

#include <cstdint>

struct rte_mbuf;

namespace pollux::io {

// One queue of one port, or of a simulated network (tests/sim). Used by one worker. Virtual calls
// are made once per burst.
class Link {
 public:
  virtual ~Link() = default;
  // Receives up to `capacity` frames that have arrived; the caller then owns them.
  virtual uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) = 0;
  // Takes over the first n of `count` frames and returns n; the caller still owns the others.
  virtual uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) = 0;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_LINK_H_
