// A port for the tests of what forwards frames between a port and the kernel.
#ifndef POLLUX_STACK_KERNEL_FAKE_PORT_FOR_TEST_H_
#define POLLUX_STACK_KERNEL_FAKE_PORT_FOR_TEST_H_

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "stack/io/eal_for_test.h"
#include "stack/io/link/link.h"

namespace pollux::kernel {

using Frame = std::vector<uint8_t>;

class FakePort : public io::Link {
 public:
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t count = 0;
    for (; count < capacity && !incoming.empty(); incoming.pop_front()) {
      frames[count++] = incoming.front();
    }
    return count;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    count = std::min(count, room);
    for (uint16_t i = 0; i < count; ++i) {
      sent.push_back(io::BytesOf(frames[i]));
      rte_pktmbuf_free(frames[i]);
    }
    return count;
  }
  // The next Receive() calls return these frames.
  void Arrive(const std::vector<Frame>& frames) {
    for (const Frame& frame : frames) incoming.push_back(io::FrameForTest(frame));
  }

  std::deque<rte_mbuf*> incoming;  // owned by the port until Receive() returns them
  std::vector<Frame> sent;
  uint16_t room = UINT16_MAX;  // the most frames that one Send() takes
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_FAKE_PORT_FOR_TEST_H_
