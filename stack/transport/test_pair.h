// For tests: two connected endpoints, with hooks for every frame between them.
#ifndef POLLUX_STACK_TRANSPORT_TEST_PAIR_H_
#define POLLUX_STACK_TRANSPORT_TEST_PAIR_H_

#include <rte_mbuf.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stack/transport/endpoint.h"

namespace pollux::transport {

// What a hook does with a frame.
enum class PacketAction { kDeliver, kDrop, kDuplicate };

// One side: an endpoint and everything that a worker would provide to it.
class TestNode : public io::Link {
 public:
  // If `shared`, receives are posted to `srq`.
  TestNode(const std::string& name, Qpn qpn, uint32_t address, ibv_qp_type type,
           const ibv_qp_cap& cap, bool shared = false, const DcqcnParameters* dcqcn = nullptr,
           uint32_t first_msn = 0);
  ~TestNode() override;

  uint16_t Receive(rte_mbuf**, uint16_t, uint64_t) override { return 0; }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override;

  // Changes the queue pair's state to RTS, connected to `peer`, through the verbs state machine.
  void Connect(const TestNode& peer, ibv_qp_attr attr);

  // `rkey` is also the key to invalidate for IBV_WR_SEND_WITH_INV and IBV_WR_LOCAL_INV, the latter
  // without data.
  int PostSend(ibv_wr_opcode opcode, uint64_t wr_id, const void* data, uint32_t length,
               uint64_t remote = 0, uint32_t rkey = 0, int flags = IBV_SEND_SIGNALED);
  // The original value is written to `result`, 8 bytes in `memory`.
  int PostAtomic(ibv_wr_opcode opcode, uint64_t wr_id, void* result, uint64_t remote, uint32_t rkey,
                 uint64_t compare_add, uint64_t swap = 0);
  int PostRecv(uint64_t wr_id, void* data, uint32_t length);
  std::vector<ibv_wc> Poll();
  PollContext context(uint64_t now_ns) {
    return {.now_ns = now_ns, .egress = egress, .counters = counters, .random = random};
  }

  Random random{1};
  memory::RegionTable regions{64, &random};
  memory::ProtectionDomain pd{.regions = &regions, .handle = 1};
  // All memory that the tests use, registered with all rights under `key`.
  std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 20);
  uint32_t key = 0;
  verbs::CompletionQueue cq{4096};
  verbs::SharedReceiveQueue srq{
      &pd, {.max_wr = 256, .max_sge = 4, .srq_limit = 0}, nullptr, [this](ibv_event_type event) {
        events.push_back(event);
      }};
  Counters counters;
  rte_mempool* pool;
  Egress egress;
  verbs::ActiveList active;
  verbs::LinkAddress link_address;
  std::vector<ibv_event_type> events;
  std::unique_ptr<Endpoint> endpoint;
  uint32_t address;
  std::deque<rte_mbuf*> outgoing;
};

class TestPair {
 public:
  explicit TestPair(ibv_qp_type type = IBV_QPT_RC, const ibv_qp_attr* attr = nullptr,
                    bool shared = false, const DcqcnParameters* dcqcn = nullptr,
                    uint32_t first_msn = 0);
  ~TestPair();
  // For RTS with path MTU 1024, 16 READs and atomics, retry 7, RNR retry 7, timeout code 14 (67
  // ms).
  static ibv_qp_attr DefaultAttr();

  // Moves frames and runs both endpoints until nothing is left to do at the current time.
  void Run();
  // Advances the time to the next deadline, then runs. Returns false if there is no deadline.
  bool Wait();
  // Runs and waits until there is no deadline left.
  void RunToEnd();

  uint64_t now_ns = 1'000'000;
  TestNode a, b;
  // Called for each frame; `from_a` is its direction.
  std::function<PacketAction(bool from_a, const wire::RocePacket&, rte_mbuf*)> hook;

 private:
  bool Deliver(TestNode& from, TestNode& to);
  bool Service(TestNode& node);
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_TEST_PAIR_H_
