#include "tests/bench/memory_cost.h"

#include <infiniband/verbs.h>
#include <malloc.h>
#include <rte_mempool.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cm/manager.h"
#include "stack/engine/loop/worker.h"
#include "tests/sim/connect.h"
#include "tests/sim/simulation.h"

#ifdef __SANITIZE_ADDRESS__
// gcc has it without its header.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace pollux::bench {
namespace {

constexpr uint32_t kCount = 256;
constexpr uint16_t kPort = 4791;

// What is allocated and not freed.
double HeapBytes() {
#ifdef __SANITIZE_ADDRESS__
  return static_cast<double>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
#endif
}

template <typename Function>
double Growth(Function function) {
  const double before = HeapBytes();
  function();
  return HeapBytes() - before;
}

struct Shape {
  uint32_t send_wr = 1;
  uint32_t recv_wr = 1;
  uint8_t resources = 1;  // READs and atomics that the peer may have under way
};

// Two hosts and what their queue pairs share.
class Hosts {
 public:
  Hosts() : simulation_(1, {}), nodes_{&simulation_.AddNode(), &simulation_.AddNode()} {
    for (int i = 0; i < 2; ++i) {
      pds_[i] = worker(i).AllocPd().value();
      cqs_[i] = worker(i).CreateCq(64).value();
    }
    if (!sim::FindEachOther(simulation_, *nodes_[0], *nodes_[1])) std::abort();
  }
  sim::Simulation& simulation() { return simulation_; }
  sim::Node& node(int i) { return *nodes_[i]; }
  engine::Worker& worker(int i) { return nodes_[i]->worker(); }

  verbs::QueuePair* Create(int i, const Shape& shape) {
    verbs::QueuePairInitAttr init;
    init.pd = pds_[i];
    init.send_cq = init.recv_cq = cqs_[i];
    init.cap.max_send_wr = shape.send_wr;
    init.cap.max_recv_wr = shape.recv_wr;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    return worker(i).CreateQp(std::move(init)).value();
  }
  memory::ProtectionDomain* pd(int i) { return pds_[i]; }

 private:
  sim::Simulation simulation_;
  sim::Node* nodes_[2];
  memory::ProtectionDomain* pds_[2];
  verbs::CompletionQueue* cqs_[2];
};

// A queue pair in RTS.
double QueuePairBytes(const Shape& shape) {
  Hosts hosts;
  const double growth = Growth([&] {
    for (uint32_t i = 0; i < kCount; ++i) {
      verbs::QueuePair* qp = hosts.Create(0, shape);
      ibv_qp_attr attr{};
      attr.path_mtu = IBV_MTU_4096;
      attr.max_rd_atomic = attr.max_dest_rd_atomic = shape.resources;
      const absl::Status status =
          sim::BringToRts(hosts.node(0), qp, hosts.node(1), Qpn{i + 2}, attr);
      if (!status.ok()) std::abort();
    }
  });
  return growth / kCount;
}

// Room for one is taken when the worker starts; registering takes nothing more.
double RegionRoomBytes() {
  const auto bytes = [](uint32_t regions) {
    std::unique_ptr<engine::Worker> worker;
    const engine::WorkerConfig config{
        .max_queue_pairs = 1, .max_regions = regions, .packet_buffers = 127};
    return Growth([&] { worker = engine::Worker::Create(config).value(); });
  };
  constexpr uint32_t kFew = 1024, kMany = 8192;
  bytes(kFew);  // what the first worker of a process takes for all
  return (bytes(kMany) - bytes(kFew)) / (kMany - kFew);
}

double RegistrationBytes() {
  Hosts hosts;
  static uint8_t memory[64];
  const double growth = Growth([&] {
    for (uint32_t i = 0; i < kCount; ++i) {
      if (!hosts.worker(0).RegMr(hosts.pd(0), memory, sizeof memory, 0).ok()) std::abort();
    }
  });
  return growth / kCount;
}

double PacketBufferBytes() {
  Hosts hosts;
  const rte_mempool* pool = hosts.worker(0).packet_pool();
  return static_cast<double>(pool->header_size + pool->elt_size + pool->trailer_size);
}

// Connections made by CM, between queue pairs that are there already.
class Connections {
 public:
  Connections() {
    for (int i = 0; i < 2; ++i) {
      managers_[i] = cm::Manager::Create(&hosts_.worker(i)).value();
      for (uint32_t n = 0; n <= kCount; ++n) qps_[i].push_back(hosts_.Create(i, {}));
    }
    cm::Id* listener =
        managers_[1]
            ->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnServer(event); })
            .value();
    if (!managers_[1]->Listen(listener, kPort).ok()) std::abort();
  }
  ~Connections() {
    for (auto& manager : managers_) manager.reset();
  }

  // Of one end.
  double Bytes() {
    MakeOne();  // what the first takes for all
    const double growth = Growth([&] {
      for (uint32_t i = 0; i < kCount; ++i) MakeOne();
    });
    return growth / (2 * kCount);
  }

 private:
  void MakeOne() {
    const uint32_t wanted = established_ + 2;
    cm::Id* id = managers_[0]
                     ->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnClient(event); })
                     .value();
    const SocketAddress server{.address = hosts_.node(1).gid(), .port = kPort};
    if (!managers_[0]->ResolveAddr(id, server, 1000).ok()) std::abort();
    const uint64_t deadline_ns = hosts_.simulation().now_ns() + 10 * sim::Simulation::kSecond;
    if (!hosts_.simulation().RunUntil([&] { return established_ == wanted; }, deadline_ns)) {
      std::abort();
    }
  }
  void Bind(int i, cm::Id* id, absl::AnyInvocable<void()> then) {
    verbs::QueuePair* qp = qps_[i].back();
    qps_[i].pop_back();
    managers_[i]->BindQp(id, &hosts_.worker(i), qp, 0,
                         [then = std::move(then)](const absl::Status& status) mutable {
                           if (!status.ok()) std::abort();
                           then();
                         });
  }
  void OnClient(const cm::Event& event) {
    switch (event.type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (!managers_[0]->ResolveRoute(event.id, 1000).ok()) std::abort();
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        Bind(0, event.id, [this, id = event.id] {
          if (!managers_[0]->Connect(id, kParam).ok()) std::abort();
        });
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established_;
        break;
      default:
        std::abort();
    }
  }
  void OnServer(const cm::Event& event) {
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
      ++established_;
    } else if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      Bind(1, event.id, [this, id = event.id] {
        if (!managers_[1]->Accept(id, kParam).ok()) std::abort();
      });
    } else {
      std::abort();
    }
  }

  static constexpr cm::ConnectionParam kParam{.responder_resources = 1, .initiator_depth = 1};
  Hosts hosts_;
  std::unique_ptr<cm::Manager> managers_[2];
  std::vector<verbs::QueuePair*> qps_[2];
  uint32_t established_ = 0;  // ends
};

}  // namespace

std::vector<MemoryCost> MeasureMemoryCosts() {
  constexpr uint32_t kDeep = 129;
  const double qp = QueuePairBytes({});
  const double send = (QueuePairBytes({.send_wr = kDeep}) - qp) / (256 - 1);
  const double receive = (QueuePairBytes({.recv_wr = kDeep}) - qp) / (256 - 1);
  const double resource = (QueuePairBytes({.resources = kDeep - 1}) - qp) / (kDeep - 2);
  return {
      // Its flight recorder, counters and expected headers included.
      {"queue pair, reliable, in RTS", qp, 5184},
      {"  each send work request", send, 160},
      {"  each receive work request", receive, 48},
      {"  each READ or atomic of the peer", resource, 80},
      {"memory region, reserved at start", RegionRoomBytes(), 130},
      {"  registering it", RegistrationBytes(), 0},
      {"connection of CM, one end", Connections().Bytes(), 3328},
      {"packet buffer, path MTU 4096", PacketBufferBytes(), 4864},
  };
}

}  // namespace pollux::bench
