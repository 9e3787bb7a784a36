// The run-to-completion event loop of one core: it polls its ports and runs the transport of its
// queue pairs, its timers, its mailbox and the application's pollers.
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
#include "stack/base/qpn_layout.h"
#include "stack/base/random.h"
#include "stack/base/stats.h"
#include "stack/engine/loop/actor.h"
#include "stack/engine/loop/failure_observer.h"
#include "stack/engine/loop/link_watch.h"
#include "stack/engine/loop/poller.h"
#include "stack/engine/loop/port_observer.h"
#include "stack/engine/loop/transmit_scheduler.h"
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
namespace pollux::kernel {
class InterfaceClaims;
}  // namespace pollux::kernel

namespace pollux::engine {

struct WorkerConfig {
  uint32_t index = 0;  // goes into the worker bits of its queue pair numbers
  QpnLayout qpn_layout;
  // A layout holds three numbers fewer than its index bits allow: indices 0, 1 and all ones are not
  // used.
  uint32_t max_queue_pairs = 16381;
  uint32_t max_regions = 65536;
  // Limit for each of: protection domains, completion queues, shared receive queues, address
  // handles.
  uint32_t max_objects = 65536;
  uint32_t packet_buffers = 2047;   // small pools stay in the cache
  uint16_t max_frame_bytes = 4352;  // bytes: path MTU 4096 and the longest headers
  Random::Seed seed{};
  uint64_t start_ns = 0;  // the time before the first poll, as Poll() will give it
  // What this process has of the interface, if other processes share it; otherwise null. Not owned.
  kernel::InterfaceClaims* claims = nullptr;
};

// One core's event loop and the owner of its objects. Only the owning core may call the functions
// below, except Actor::Post(); other threads use Actor::Call(). InitEal() must have succeeded.
class Worker : public Actor {
 public:
  // Errors: ResourceExhausted if DPDK has no memory for the packet pool; InvalidArgument if the
  // queue pair number layout cannot hold the index or `max_queue_pairs`.
  static absl::StatusOr<std::unique_ptr<Worker>> Create(const WorkerConfig& config);
  ~Worker() override;

  // Adds a port before the first poll; the first one becomes port 1 of the verbs. `interface` holds
  // the port's MAC address, addresses and neighbours, and handles every frame that is not RoCE.
  // `link` is this worker's queue of the port. Neither is owned. Both must outlive the last Poll(),
  // and must return their buffers to packet_pool() before the worker is destroyed. `name` appears
  // in statistics. `steering` is the layer of `link` to which received RoCE frames are returned if
  // workers share the port; if null, they are freed.
  void AddPort(ip::Interface* interface, io::Link* link, std::string name = "",
               io::Steering* steering = nullptr);
  // Watches the state of a port's link (LinkWatch). An unwatched link counts as up. Call it before
  // the first poll.
  void WatchLink(LinkWatch::Look look, uint8_t port_num = 1);
  void AddPortObserver(PortObserver* observer) { port_observers_.Add(observer); }
  void RemovePortObserver(PortObserver* observer) { port_observers_.Remove(observer); }
  // Enables congestion control for queue pairs that are created later, except the GSI queue pair.
  // Call it once, before the first is created. Without it no packet is marked as ECN-capable, and
  // CNPs are ignored.
  void EnableDcqcn(const transport::DcqcnParameters& parameters) { dcqcn_ = parameters; }

  // Runs one turn of the loop: receive a burst, dispatch, timers, mailbox, pollers, acknowledge,
  // transmit, deliver events, flush. Returns whether there was any work, so that the caller can
  // yield when idle; a timer without effect does not count as work. `now_ns` must come from a
  // monotonic clock.
  using AckAction = transport::AckPolicy::Action;
  bool Poll(uint64_t now_ns, AckAction acks = transport::AckPolicy::kSendNow);
  bool OwesAcks() { return scheduler_.owes_acks(); }
  // When this worker's next timer is due; UINT64_MAX if none is armed.
  uint64_t NextDeadline() const { return wheel_.NextDeadline(); }

  // Pollers are called once per turn while awake. They are not owned, and may be added and removed
  // in a turn.
  void AddPoller(Poller* poller) { pollers_.Add(poller); }
  void RemovePoller(Poller* poller) { pollers_.Remove(poller); }
  // Providers are queried in addition to the worker's own statistics, and are not owned. Collect()
  // returns false if no provider knows the topic. Queries come from engine/telemetry.h.
  void AddStatsProvider(StatsProvider* provider) { stats_.Add(provider); }
  void RemoveStatsProvider(StatsProvider* provider) { stats_.Remove(provider); }
  bool Collect(const StatsQuery& query, Stats* stats) { return stats_.Collect(query, stats); }
  TimingWheel& wheel() { return wheel_; }
  Random& random() { return random_; }
  uint64_t now_ns() const { return now_ns_; }  // the time given to the current or last Poll()
  // For a caller between polls, perhaps long after the last one: timers armed by the call count
  // from `now_ns`. A time before the last poll has no effect.
  void AdvanceClock(uint64_t now_ns) {
    if (now_ns <= now_ns_) return;
    if (busy_) core_counters_.busy_ns += now_ns - now_ns_;
    now_ns_ = now_ns;
  }
  ip::Interface& interface(uint8_t port_num = 1);
  // The counters of one port.
  const transport::Counters& counters(uint8_t port_num = 1) const;
  rte_mempool* packet_pool() { return packet_pool_; }
  kernel::InterfaceClaims* claims() const { return config_.claims; }  // of WorkerConfig
  // For calls into the interface of a port.
  transport::PollContext poll_context(uint8_t port_num = 1);

  // Observers are notified until they are destroyed, which may happen on another core. At most
  // kMaxFailuresTold failures are reported per turn.
  static constexpr uint32_t kMaxFailuresTold = FailureList::kMax;
  void AddFailureObserver(std::weak_ptr<FailureObserver> observer) {
    failures_.AddObserver(std::move(observer));
  }

  // Objects as in rdma-core. Pointers stay valid until the object is destroyed. All of these
  // functions may be called from pollers, event handlers and mailbox messages.
  //
  // Errors: FailedPrecondition (EBUSY) for destroying an object in use; ResourceExhausted (ENOMEM)
  // at the limit of a count and for queues for which there is no memory; InvalidArgument (EINVAL)
  // for bad attributes and for objects of another worker.
  absl::StatusOr<memory::ProtectionDomain*> AllocPd() { return memory_.AllocPd(); }
  absl::Status DeallocPd(memory::ProtectionDomain* pd) { return memory_.DeallocPd(pd); }
  // Registers the application's memory, which must stay valid until DeregMr(). `length` is in
  // bytes, `access` holds ibv_access_flags. Writes to a local table; takes no heap memory.
  absl::StatusOr<memory::MemoryRegion> RegMr(memory::ProtectionDomain* pd, void* address,
                                             uint64_t length, int access) {
    return memory_.RegMr(pd, address, length, access);
  }
  // The key is invalid when this returns. Work requests in flight that name it fail, unless their
  // data has been copied already.
  absl::Status DeregMr(const memory::MemoryRegion& region) { return memory_.DeregMr(region); }
  // Allocates a region to which work requests assign memory (verbs::kWrRegMr, IBV_WR_LOCAL_INV), at
  // most `capacity` bytes at a time. Free it with DeregMr().
  absl::StatusOr<memory::MemoryRegion> AllocFastMr(memory::ProtectionDomain* pd,
                                                   uint32_t capacity) {
    return memory_.AllocFastMr(pd, capacity);
  }
  // See RegionTable::RegisterFast.
  absl::StatusOr<memory::MemoryRegion> RegFastMr(memory::ProtectionDomain* pd, void* address,
                                                 uint32_t length, int access) {
    return memory_.RegFastMr(pd, address, length, access);
  }
  // As ibv_alloc_mw and ibv_dealloc_mw. The consumer may choose the low 8 bits of a type 2 window's
  // rkey.
  absl::StatusOr<ibv_mw*> AllocMw(memory::ProtectionDomain* pd, ibv_mw_type type) {
    return memory_.AllocMw(pd, type);
  }
  absl::Status DeallocMw(ibv_mw* mw) { return memory_.DeallocMw(mw); }
  // As ibv_bind_mw, for windows of type 1: posts the binding and gives `mw` its new rkey. Returns 0
  // or an errno.
  int BindMw(verbs::QueuePair* qp, ibv_mw* mw, const ibv_mw_bind& bind) {
    return memory_.BindMw(qp, mw, bind);
  }
  // `on_event` receives IBV_EVENT_CQ_ERR, between polls of the packet path.
  absl::StatusOr<verbs::CompletionQueue*> CreateCq(uint32_t entries,
                                                   verbs::EventHandler on_event = nullptr) {
    return cqs_.Create(entries, std::move(on_event));
  }
  // Also returns FailedPrecondition while the channel holds an event of this queue that was not
  // taken.
  absl::Status DestroyCq(verbs::CompletionQueue* cq) { return cqs_.Destroy(cq); }
  // `on_event` receives IBV_EVENT_SRQ_LIMIT_REACHED, between polls of the packet path.
  absl::StatusOr<verbs::SharedReceiveQueue*> CreateSrq(memory::ProtectionDomain* pd,
                                                       const ibv_srq_attr& attr,
                                                       verbs::EventHandler on_event = nullptr) {
    if (!memory_.Owns(pd)) return NotOurs("protection domain");
    return srqs_.Create(pd, attr, std::move(on_event));
  }
  absl::Status DestroySrq(verbs::SharedReceiveQueue* srq) { return srqs_.Destroy(srq); }
  // Creates an address handle from grh.dgid, grh.sgid_index, hop_limit, traffic_class and
  // flow_label of `attr`; port_num 0 stands for port 1. The next hop is resolved in the background,
  // and packets wait for it in a bounded queue. Must not be destroyed while a posted send names it.
  absl::StatusOr<verbs::AddressHandle*> CreateAh(memory::ProtectionDomain* pd,
                                                 const ibv_ah_attr& attr);
  absl::Status DestroyAh(verbs::AddressHandle* ah) { return ahs_.Destroy(ah); }
  // As ibv_create_qp, for RC, UC and UD.
  absl::StatusOr<verbs::QueuePair*> CreateQp(verbs::QueuePairInitAttr init);
  // Creates queue pair 1 (IBV_QPT_UD with the well-known Q_Key). Returns AlreadyExists if the
  // worker has one.
  absl::StatusOr<verbs::QueuePair*> CreateGsiQp(verbs::QueuePairInitAttr init);
  // As ibv_modify_qp. With IBV_QP_AV, attr.ah_attr is resolved as in CreateAh(). InvalidArgument
  // if path_mtu exceeds the port's active_mtu. An error leaves the queue pair unchanged.
  absl::Status ModifyQp(verbs::QueuePair* qp, const ibv_qp_attr& attr, int mask);
  // Destroys a queue pair: its pending requests never complete, and packets to it are no longer
  // answered. A new queue pair that takes its place has another number (QueuePairTable::Take()).
  absl::Status DestroyQp(verbs::QueuePair* qp);

  // As ibv_attach_mcast, for UD: datagrams to group `gid` are also delivered to `qp`. It does not
  // make the network send the group's packets to this port: joining the group does (ip::Interface).
  // Attaching twice has no effect; destroying the queue pair detaches it. Errors: InvalidArgument
  // for a queue pair that is not UD or an address that is not multicast, ResourceExhausted at
  // MulticastGroups::kMaxGroups or kMaxMembers, NotFound for detaching what is not attached.
  absl::Status AttachMulticast(verbs::QueuePair* qp, const Gid& gid) {
    return groups_.Attach(qp, gid);
  }
  absl::Status DetachMulticast(verbs::QueuePair* qp, const Gid& gid) {
    return groups_.Detach(qp, gid);
  }

  // As ibv_query_device, ibv_query_port and ibv_query_qp. Attributes that do not exist here are 0.
  ibv_device_attr QueryDevice() const;
  absl::StatusOr<ibv_port_attr> QueryPort(uint8_t port_num = 1) const;
  static void QueryQp(const verbs::QueuePair& qp, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
    QueuePairAttributes(qp, attr, init);
  }

 private:
  friend class TransmitScheduler;
  friend class WorkerStats;
  struct Port;
  using Slot = QueuePairSlot;

  static constexpr uint16_t kBurst = 32;  // frames received from a port per turn

  explicit Worker(const WorkerConfig& config);

  transport::PollContext& Context(Port& port);
  Port& PortOf(const verbs::QueuePair& qp);
  absl::StatusOr<Port*> FindPort(uint8_t port_num);
  absl::Status NoSuchPort(uint8_t port_num) const;
  bool Receive(Port& port);
  // Handles the first `count` of frames_. Like all code that runs only when there is work, it is
  // not inlined: a turn without work then saves no registers for it.
  [[gnu::noinline]] void TakeBurst(Port& port, uint16_t count);
  void LookAhead(uint16_t count);
  void FreeTaken(Port& port, uint16_t count);
  // A received frame.
  struct Arrival {
    const uint8_t* frame = nullptr;
    size_t length = 0;  // bytes; 0: in several segments
    Qpn dest_qpn;       // if the frame is RoCE over IPv4 without a tag; 0: it is not
  };
  // The number of queue pairs that are prefetched: the number of cache misses that may be
  // outstanding.
  static constexpr uint16_t kPrefetchAhead = 6;
  void Prepare(const rte_mbuf* frame, Arrival* arrival) const;
  void Prefetch(uint16_t i) const;
  // State that passes from dispatched frames of a burst to the following ones.
  struct Burst {
    Slot* called = nullptr;  // the last to get a packet; AfterCall() is still due for it
    // The port's addresses change between bursts only.
    uint32_t address_version = 0;
  };
  bool Dispatch(Port& port, rte_mbuf* frame, const Arrival& arrival, Burst* burst,
                transport::PollContext& context);
  bool DispatchParsed(Port& port, rte_mbuf* frame, const Arrival& arrival, Burst* burst,
                      transport::PollContext& context);
  void NoteCalled(Slot& slot, Burst* burst);
  static uint32_t AddressVersion(const Port& port);
  void DispatchMulticast(const ip::Interface& interface, const wire::RocePacket& packet,
                         transport::PollContext& context);
  Slot& SlotOf(const verbs::QueuePair& qp) { return qps_.Of(qp); }
  // Delivers the events and failures of the turn, and frees destroyed objects.
  [[gnu::noinline]] void EndTurn();
  void DeliverEvents();
  void AfterCall(Slot& slot);
  void MoveTimer(Slot& slot, uint64_t deadline_ns);
  [[gnu::noinline]] void ArmInterface(Port& port);
  void ReportProgress(uint8_t port_num, ip::NeighbourTable::ProgressReport report);
  // Defined in worker_queue_pairs.cc:
  absl::Status CheckInit(const verbs::QueuePairInitAttr& init) const;
  absl::StatusOr<verbs::QueuePair*> Place(Slot& slot, verbs::QueuePairInitAttr init);
  void ReleasePath(Slot& slot);
  static void OnQueuePairTimer(void* worker, Slot& slot);
  static void OnInterfaceTimer(void* port, uint64_t now_ns);

  WorkerConfig config_;
  Random random_;
  TimingWheel wheel_;
  uint64_t now_ns_;
  CoreCounters core_counters_;
  bool busy_ = false;  // the last turn had work
  rte_mempool* packet_pool_ = nullptr;
  std::vector<std::unique_ptr<Port>> ports_;
  MemoryObjects memory_;
  std::optional<transport::DcqcnParameters> dcqcn_;
  TransmitScheduler scheduler_;
  // For the current burst:
  std::array<rte_mbuf*, kBurst> frames_;
  std::array<Arrival, kBurst> arrivals_;
  Burst* burst_ = nullptr;  // while its frames are dispatched
  PollerList pollers_;
  QueuePairTable qps_;
  verbs::EventList events_;
  FailureList failures_;
  DestroyedObjects destroyed_;  // including queue pairs
  PortObserverList port_observers_;
  MulticastGroups groups_;
  CompletionQueueTable cqs_;
  SharedReceiveQueueTable srqs_;
  AddressHandleTable ahs_;
  WorkerStats stats_;
};

}  // namespace pollux::engine

#endif  // POLLUX_STACK_ENGINE_LOOP_WORKER_H_
