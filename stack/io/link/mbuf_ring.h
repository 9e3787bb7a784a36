// Functions for rings of frames.
#ifndef POLLUX_STACK_IO_LINK_MBUF_RING_H_
#define POLLUX_STACK_IO_LINK_MBUF_RING_H_

#include <rte_mbuf.h>
#include <rte_ring.h>

namespace pollux::io {

// Frees the frames in `ring`, which may be null. Call it on the thread that receives from the ring.
inline void FreeFrames(rte_ring* ring) {
  void* frame = nullptr;
  while (ring != nullptr && rte_ring_dequeue(ring, &frame) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
  }
}

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_MBUF_RING_H_
