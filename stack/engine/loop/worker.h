// The run-to-completion core: it polls its ports, runs the transport of the queue pairs it owns,
// its timers, its mailbox, and what the application hangs into its loop.
#ifndef POLLUX_STACK_ENGINE_LOOP_WORKER_H_
#define POLLUX_STACK_ENGINE_LOOP_WORKER_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/base/random.h"
#include "stack/base/stats.h"
#include "stack/engine/loop/actor.h"
#include "stack/engine/loop/failure_observer.h"
#include "stack/engine/loop/link_watch.h"
#include "stack/engine/loop/poller.h"
#include "stack/engine/loop/port_observer.h"
#include "stack/engine/loop/worker_stats.h"
#include "stack/engine/objects/address_handle_table.h"
#include "stack/engine/objects/attributes.h"
#include "stack/engine/objects/completion_queue_table.h"
#include "stack/engine/objects/memory_objects.h"
#include "stack/engine/objects/multicast_groups.h"
#include "stack/engine/objects/object_table.h"
#include "stack/engine/objects/queue_pair_table.h"
#include "stack/engine/objects/shared_receive_queue_table.h"
#include "stack/engine/timer/timing_wheel.h"
#include "stack/io/steering/qpn_layout.h"
#include "stack/ip/interface.h"
#include "stack/memory/protection_domain.h"
#include "stack/transport/ack_policy.h"
#include "stack/transport/congestion/dcqcn_parameters.h"
#include "stack/transport/diagnostics/counters.h"
#include "stack/transport/endpoint.h"
#include "stack/verbs/completion_queue.h"
#include "stack/verbs/event_list.h"
#include "stack/verbs/queue_pair.h"
#include "stack/verbs/shared_receive_queue.h"

namespace pollux::io {
class Steering;
}  // namespace pollux::io

namespace pollux::engine {

struct WorkerConfig {
  uint32_t index = 0;  // its worker bits
  io::QpnLayout qpn_layout;
  // Numbers whose index is 0, 1 or all ones are not given out: a layout holds three fewer.
  uint32_t max_queue_pairs = 16381;
  uint32_t max_regions = 65536;
  // Of each: protection domains, completion queues, shared receive queues, address handles.
  uint32_t max_objects = 65536;
  uint32_t packet_buffers = 2047;   // small pools stay in cache; see README
  uint16_t max_frame_bytes = 4352;  // path MTU 4096 and the longest headers
  Random::Seed seed{};
  uint64_t start_ns = 0;  // the `now_ns` before the first poll
};

// One core. Every function below except Actor::Post is for its own core only; others go through
// Actor::Call. EAL must be initialised (eal.h).
class Worker : public Actor {
 public:
  // ResourceExhausted when the packet pool cannot be had; InvalidArgument when the queue pair
  // number layout does not hold what is asked for.
  static absl::StatusOr<std::unique_ptr<Worker>> Create(const WorkerConfig& config);
  ~Worker() override;

  // Gives it a port before the first poll; the first is port 1 of verbs. `interface` (net/) holds
  // MAC, addresses, neighbours of the port and frames everything that is not RoCE; `link` is this
  // worker's queue of it. Neither is owned; both outlive the last Poll(), and give back what they
  // hold of packet_pool() before the worker is destroyed.
  // `name` is for those who ask what it is. `steering`: the layer of `link` that received RoCE
  // frames go back to, where workers share the port; else they are freed.
  void AddPort(ip::Interface* interface, io::Link* link, std::string name = "",
               io::Steering* steering = nullptr);
  // Has the link of a port looked at (LinkWatch). Without it the link counts as up. Before the
  // first poll.
  void WatchLink(LinkWatch::Look look, uint8_t port_num = 1);
  void AddPortObserver(PortObserver* observer) { port_observers_.Add(observer); }
  void RemovePortObserver(PortObserver* observer) { port_observers_.Remove(observer); }
  // Congestion control for the queue pairs that are made from now on, the GSI one excepted. Once,
  // before the first. Without it nothing is marked as ECN-capable and CNPs are ignored.
  void EnableDcqcn(const transport::DcqcnParameters& parameters) { dcqcn_ = parameters; }

  // One turn of the loop: receive a burst, dispatch, timers, mailbox, pollers, transmit, flush.
  // Returns whether anything was done, so that the caller can yield when idle.
  using AckAction = transport::AckPolicy::Action;
  bool Poll(uint64_t now_ns, AckAction acks = transport::AckPolicy::kSendNow);
  bool OwesAcks() { return !active_.owed_acks().empty(); }
  // The earliest time at which a timer of this worker is due; UINT64_MAX when none.
  uint64_t NextDeadline() const { return wheel_.NextDeadline(); }

  void AddPoller(Poller* poller) { pollers_.Add(poller); }
  void RemovePoller(Poller* poller) { pollers_.Remove(poller); }
  // What is told besides the worker's own, and all of it: false when nobody knows. See
  // engine/telemetry.h for who asks.
  void AddStatsProvider(StatsProvider* provider) { stats_.Add(provider); }
  void RemoveStatsProvider(StatsProvider* provider) { stats_.Remove(provider); }
  bool Collect(const StatsQuery& query, Stats* stats) { return stats_.Collect(query, stats); }
  TimingWheel& wheel() { return wheel_; }
  Random& random() { return random_; }
  uint64_t now_ns() const { return now_ns_; }  // as given to the current or last Poll()
  // For who calls between polls, perhaps long after the last: what is armed by the call counts from
  // `now_ns`. An earlier time than that of the last poll changes nothing.
  void AdvanceClock(uint64_t now_ns) {
    if (now_ns <= now_ns_) return;
    if (busy_) core_counters_.busy_ns += now_ns - now_ns_;
    now_ns_ = now_ns;
  }
  ip::Interface& interface(uint8_t port_num = 1);
  // Of one of its ports.
  const transport::Counters& counters(uint8_t port_num = 1) const;
  rte_mempool* packet_pool() { return packet_pool_; }
  // Of the port, for calls into its interface.
  transport::PollContext poll_context(uint8_t port_num = 1);

  // Until it is destroyed, which may be on another core.
  static constexpr uint32_t kMaxFailuresTold = FailureList::kMax;
  void AddFailureObserver(std::weak_ptr<FailureObserver> observer) {
    failures_.AddObserver(std::move(observer));
  }

  // Objects, as rdma-core has them. Pointers stay valid until destroyed. Destroying what is in use
  // fails with FailedPrecondition (EBUSY); counts at their limit with ResourceExhausted (ENOMEM);
  // bad attributes, and objects of another worker, with InvalidArgument (EINVAL). Any of it may be
  // called from pollers, events and mailbox messages.
  absl::StatusOr<memory::ProtectionDomain*> AllocPd() { return memory_.AllocPd(); }
  absl::Status DeallocPd(memory::ProtectionDomain* pd) { return memory_.DeallocPd(pd); }
  // A local table write; no heap.
  absl::StatusOr<memory::MemoryRegion> RegMr(memory::ProtectionDomain* pd, void* address,
                                             uint64_t length, int access) {
    return memory_.RegMr(pd, address, length, access);
  }
  // The key is refused from this call on. In-flight work requests that name it fail or have copied.
  absl::Status DeregMr(const memory::MemoryRegion& region) { return memory_.DeregMr(region); }
  // A region whose memory work requests name and take away again (verbs::kWrRegMr,
  // IBV_WR_LOCAL_INV), at most `capacity` bytes at a time. Given back by DeregMr().
  absl::StatusOr<memory::MemoryRegion> AllocFastMr(memory::ProtectionDomain* pd,
                                                   uint32_t capacity) {
    return memory_.AllocFastMr(pd, capacity);
  }
  // See RegionTable::RegisterFast.
  absl::StatusOr<memory::MemoryRegion> RegFastMr(memory::ProtectionDomain* pd, void* address,
                                                 uint32_t length, int access) {
    return memory_.RegFastMr(pd, address, length, access);
  }
  // As ibv_alloc_mw, ibv_dealloc_mw. The rkey of a window of type 2 is the consumer's to change.
  absl::StatusOr<ibv_mw*> AllocMw(memory::ProtectionDomain* pd, ibv_mw_type type) {
    return memory_.AllocMw(pd, type);
  }
  absl::Status DeallocMw(ibv_mw* mw) { return memory_.DeallocMw(mw); }
  // As ibv_bind_mw, for windows of type 1: posts the binding and gives `mw` its new rkey. An errno.
  int BindMw(verbs::QueuePair* qp, ibv_mw* mw, const ibv_mw_bind& bind) {
    return memory_.BindMw(qp, mw, bind);
  }
  // `on_event` gets IBV_EVENT_CQ_ERR, between polls of the packet path.
  absl::StatusOr<verbs::CompletionQueue*> CreateCq(uint32_t entries,
                                                   verbs::EventHandler on_event = nullptr) {
    return cqs_.Create(entries, std::move(on_event));
  }
  // FailedPrecondition also while its channel holds an announcement of it.
  absl::Status DestroyCq(verbs::CompletionQueue* cq) { return cqs_.Destroy(cq); }
  // `on_event` gets IBV_EVENT_SRQ_LIMIT_REACHED, between polls of the packet path.
  absl::StatusOr<verbs::SharedReceiveQueue*> CreateSrq(memory::ProtectionDomain* pd,
                                                       const ibv_srq_attr& attr,
                                                       verbs::EventHandler on_event = nullptr) {
    if (!memory_.Owns(pd)) return NotOurs("protection domain");
    return srqs_.Create(pd, attr, std::move(on_event));
  }
  absl::Status DestroySrq(verbs::SharedReceiveQueue* srq) { return srqs_.Destroy(srq); }
  // An address handle for `attr` (grh.dgid, grh.sgid_index, hop_limit, traffic_class, flow_label);
  // the next hop is resolved in the background, packets wait for it in a bounded queue. Port 0 in
  // the attributes stands for port 1. Not to be destroyed while a send that names it is posted.
  absl::StatusOr<verbs::AddressHandle*> CreateAh(memory::ProtectionDomain* pd,
                                                 const ibv_ah_attr& attr);
  absl::Status DestroyAh(verbs::AddressHandle* ah) { return ahs_.Destroy(ah); }
  absl::StatusOr<verbs::QueuePair*> CreateQp(verbs::QueuePairInitAttr init);
  // Queue pair 1 (IBV_QPT_UD with the well-known Q_Key) of this worker's port; one a device.
  absl::StatusOr<verbs::QueuePair*> CreateGsiQp(verbs::QueuePairInitAttr init);
  // With IBV_QP_AV, attr.ah_attr is resolved as in CreateAh(). On an error nothing has changed.
  absl::Status ModifyQp(verbs::QueuePair* qp, const ibv_qp_attr& attr, int mask);
  // Nothing of it completes or is answered any more; its number is not given out again for
  // `time_wait_ns` (0: at once, under another generation).
  absl::Status DestroyQp(verbs::QueuePair* qp, uint64_t time_wait_ns = 0);

  // As ibv_attach_mcast, for UD: datagrams for group `gid` are delivered to `qp` too. Makes the
  // network send none of them here: that is the join's business (net/). Attaching twice changes
  // nothing; destroying the queue pair detaches it. Errors: InvalidArgument for another type of
  // queue pair or an address that is no group's, ResourceExhausted at MulticastGroups::kMaxGroups
  // or kMaxMembers, NotFound when detaching what is not attached.
  absl::Status AttachMulticast(verbs::QueuePair* qp, const Gid& gid) {
    return groups_.Attach(qp, gid);
  }
  absl::Status DetachMulticast(verbs::QueuePair* qp, const Gid& gid) {
    return groups_.Detach(qp, gid);
  }

  // As ibv_query_device, ibv_query_port and ibv_query_qp; what does not exist here is 0.
  ibv_device_attr QueryDevice() const;
  absl::StatusOr<ibv_port_attr> QueryPort(uint8_t port_num = 1) const;
  static void QueryQp(const verbs::QueuePair& qp, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
    QueuePairAttributes(qp, attr, init);
  }

 private:
  friend class WorkerStats;
  struct Port;
  using Slot = QueuePairSlot;

  static constexpr uint16_t kBurst = 32;      // frames received from a port at once
  static constexpr int kTransmitBudget = 32;  // packets a queue pair may send in its turn
  // And bytes: of packets that are longer, fewer, so that others wait as long. A little more than
  // so many packets have at path MTU 1024.
  static constexpr uint32_t kTransmitBytes = 34 * 1024;
  // Turns in a poll, and packets sent in them, so that reception is not starved.
  static constexpr int kTransmitTurns = 32;
  static constexpr int kTransmitPackets = 256;
  static constexpr int kPrefetchTurns = 8;  // queue pairs that are fetched together
  // Acknowledgements a port in a poll: half of what its egress holds, the other is for data.
  static constexpr size_t kAcknowledgements = transport::Egress::kCapacity / 2;

  explicit Worker(const WorkerConfig& config);

  transport::PollContext& Context(Port& port);
  Port& PortOf(const verbs::QueuePair& qp);
  absl::StatusOr<Port*> FindPort(uint8_t port_num);
  absl::Status NoSuchPort(uint8_t port_num) const;
  bool Receive(Port& port);
  void TakeBurst(Port& port, rte_mbuf** frames, uint16_t count);
  // A received frame: what it is, and for kOk its packet.
  struct Arrival {
    wire::ParseResult result = wire::ParseResult::kNotRoce;
    wire::RocePacket packet;
  };
  // As many queue pairs are fetched as may be under way together.
  static constexpr uint16_t kPrefetchAhead = 6;
  void Parse(const rte_mbuf* frame, Arrival* arrival) const;
  void Prefetch(uint16_t i) const;
  // What the frames of one burst that are dispatched already leave to those behind them.
  struct Burst {
    Slot* called = nullptr;  // the last that had a packet; AfterCall() is to come
  };
  bool Dispatch(Port& port, rte_mbuf* frame, const Arrival& arrival, Burst* burst,
                transport::PollContext& context);
  void DispatchMulticast(const ip::Interface& interface, const wire::RocePacket& packet,
                         transport::PollContext& context);
  Slot& SlotOf(const verbs::QueuePair& qp) { return qps_.Of(qp); }
  bool Acknowledge();
  bool Transmit();
  void DeliverEvents();
  void AfterCall(Slot& slot);
  void MoveTimer(Slot& slot, uint64_t deadline_ns);
  void ArmInterface(Port& port);
  void ReportProgress(uint8_t port_num, ip::NeighbourTable::ProgressReport report);
  // worker_queue_pairs.cc
  absl::Status CheckInit(const verbs::QueuePairInitAttr& init) const;
  verbs::QueuePair* Place(Slot& slot, verbs::QueuePairInitAttr init);
  void ReleasePath(Slot& slot);
  static void OnQueuePairTimer(void* worker, Slot& slot);
  static void OnInterfaceTimer(void* port, uint64_t now_ns);

  WorkerConfig config_;
  Random random_;
  TimingWheel wheel_;
  uint64_t now_ns_;
  CoreCounters core_counters_;
  bool busy_ = false;  // in the last turn
  rte_mempool* packet_pool_ = nullptr;
  std::vector<std::unique_ptr<Port>> ports_;
  MemoryObjects memory_;
  std::optional<transport::DcqcnParameters> dcqcn_;
  verbs::ActiveList active_;
  std::array<Arrival, kBurst> arrivals_;  // of the burst that is being received
  PollerList pollers_;
  QueuePairTable qps_;
  verbs::EventList events_;
  FailureList failures_;
  DestroyedObjects destroyed_;  // queue pairs too
  PortObserverList port_observers_;
  MulticastGroups groups_;
  CompletionQueueTable cqs_;
  SharedReceiveQueueTable srqs_;
  AddressHandleTable ahs_;
  WorkerStats stats_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_H_
