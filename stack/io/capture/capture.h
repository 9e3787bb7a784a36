// Records every frame that a link sends or receives.
#ifndef POLLUX_STACK_IO_CAPTURE_CAPTURE_H_
#define POLLUX_STACK_IO_CAPTURE_CAPTURE_H_

#include <cstdint>

#include "stack/io/capture/capture_ring.h"
#include "stack/io/link/link.h"

namespace pollux::io {

// Owned by the worker that owns the link below. A capture directly above a port and below an
// impairment records the frames on the wire: received frames even if the impairment drops them, and
// sent frames only if it does not. A frame's time is that of the poll that moved it. Costs one copy
// of each frame; takes no heap memory after construction.
class Capture : public Link {
 public:
  // Neither is owned; both must outlive this object.
  Capture(Link* link, CaptureRing* ring) : link_(link), ring_(ring) {}

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

 private:
  Link* link_;
  CaptureRing* ring_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_CAPTURE_CAPTURE_H_
