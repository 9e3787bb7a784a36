// The other process of the memif test: sends every frame back, until standard input ends.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "stack/io/eal_for_test.h"
#include "stack/io/port/port.h"

int main(int argc, char** argv) {
  using namespace pollux::io;
  if (argc != 2) return 2;
  rte_mempool* pool = PoolForTest();
  absl::StatusOr<std::unique_ptr<Port>> port = Port::Open(
      {.devargs = std::string("net_memif0,role=server,socket=") + argv[1], .pools = {pool}});
  if (!port.ok()) {
    std::fprintf(stderr, "%s\n", port.status().ToString().c_str());
    return 1;
  }
  bool echoed = false;
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (poll(&input, 1, 1) == 0) {
    // One frame only: the peer may leave afterwards, and the driver may not be polled then.
    rte_mbuf* frame;
    if (echoed || (*port)->queue().Receive(&frame, 1, 0) == 0) continue;
    echoed = true;
    if ((*port)->queue().Send(&frame, 1, 0) == 0) rte_pktmbuf_free(frame);
  }
  return 0;
}
