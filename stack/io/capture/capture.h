// Sees every frame that passes a link, both ways, and has it written down.
#ifndef POLLUX_STACK_IO_CAPTURE_CAPTURE_H_
#define POLLUX_STACK_IO_CAPTURE_CAPTURE_H_

#include <cstdint>

#include "stack/io/capture/capture_ring.h"
#include "stack/io/link/link.h"

namespace pollux::io {

// Owned by the worker that owns the link beneath. Right above a port, and beneath an impairment, it
// sees what is on the wire: what the impairment loses on its way out never was there, what it
// loses on its way in was. A frame's time is that of the poll that moved it. Costs one copy of each
// frame; takes no heap after construction.
class Capture : public Link {
 public:
  // Neither is owned; both outlive this.
  Capture(Link* link, CaptureRing* ring) : link_(link), ring_(ring) {}

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

 private:
  Link* link_;
  CaptureRing* ring_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_CAPTURE_CAPTURE_H_
