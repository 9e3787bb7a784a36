#include "stack/engine/loop/worker.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"
#include "stack/engine/loop/worker_parts.h"
#include "stack/io/steering/steering.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"

namespace pollux::engine {
namespace {

using transport::Drop;
using transport::Endpoint;

constexpr uint32_t kPoolCache = 128;

std::string UniqueName(const char* what, uint32_t index) {
  static std::atomic<uint32_t> count{0};
  return absl::StrFormat("%s%u_%u", what, index, count++);
}

// As rte_pktmbuf_free_bulk(), at less cost for frames in one piece: each goes into this core's
// cache of its pool.
void FreeFrames(rte_mbuf* const* frames, unsigned count) {
  rte_mempool* pool = nullptr;  // of the last
  rte_mempool_cache* cache = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* frame = frames[i];
    // Whatever is not alone wants a look at its second line, which another core may hold.
    const bool alone =
        frame->nb_segs == 1 && rte_mbuf_refcnt_read(frame) == 1 && RTE_MBUF_DIRECT(frame);
    if (!alone) [[unlikely]] {
      rte_pktmbuf_free(frame);
      continue;
    }
    if (frame->pool != pool) [[unlikely]] {
      pool = frame->pool;
      cache = rte_mempool_default_cache(pool, rte_lcore_id());
    }
    if (cache == nullptr || cache->len == cache->flushthresh) [[unlikely]] {
      rte_mempool_put(pool, frame);
      continue;
    }
    cache->objs[cache->len++] = frame;
  }
}

Drop DropOf(wire::ParseResult result) {
  static constexpr Drop kDrops[] = {
      Drop::kTruncated,  // kOk and kNotRoce, never asked for
      Drop::kTruncated,      Drop::kTruncated,     Drop::kBadIpHeader,   Drop::kBadUdpLength,
      Drop::kBadUdpChecksum, Drop::kBadBthVersion, Drop::kUnknownOpcode, Drop::kBadPad,
  };
  static_assert(std::size(kDrops) == static_cast<size_t>(wire::ParseResult::kBadPad) + 1);
  return kDrops[static_cast<size_t>(result)];
}

}  // namespace

Worker::Worker(const WorkerConfig& config)
    : config_(config),
      index_mask_((1u << config.qpn_layout.index_bits) - 1),
      random_(config.seed),
      wheel_(config.start_ns),
      now_ns_(config.start_ns),
      regions_(config.max_regions, &random_) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(const WorkerConfig& config) {
  const io::QpnLayout& layout = config.qpn_layout;
  // With one bit of generation a number at least differs from the one before.
  if (layout.index_bits < 2 || layout.worker_bits + layout.index_bits > 23) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "queue pair numbers of %u worker bits and %u index bits: at least 2 for the index and 23 "
        "in all are possible",
        layout.worker_bits, layout.index_bits));
  }
  // QPN 0, 1 and 0xFFFFFF have a meaning: none comes about when these indices are left out.
  const uint32_t first_index = 2;
  const uint32_t end_index = (1u << layout.index_bits) - 1;
  if (config.index >= 1u << layout.worker_bits || config.max_queue_pairs == 0 ||
      config.max_queue_pairs > end_index - first_index) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker %u with %u queue pairs: the number layout holds workers 0 to %u with 1 to %u each",
        config.index, config.max_queue_pairs, (1u << layout.worker_bits) - 1,
        end_index - first_index));
  }
  std::unique_ptr<Worker> worker(new Worker(config));
  worker->packet_pool_ =
      rte_pktmbuf_pool_create(UniqueName("packets", config.index).c_str(), config.packet_buffers,
                              std::min(kPoolCache, config.packet_buffers / 4), 0,
                              RTE_PKTMBUF_HEADROOM + config.max_frame_bytes, SOCKET_ID_ANY);
  if (worker->packet_pool_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "worker %u: no memory for %u packet buffers of %u bytes; give DPDK more (-m)", config.index,
        config.packet_buffers, config.max_frame_bytes));
  }
  worker->slot_count_ = first_index + config.max_queue_pairs;
  worker->slots_ = std::make_unique<Slot[]>(worker->slot_count_);
  for (uint32_t i = 0; i < worker->slot_count_; ++i) {
    worker->slots_[i].worker = worker.get();
  }
  // From a random place on: a process started anew has other numbers than the one before, whose
  // connections a peer may not have forgotten yet (it would call ours stale).
  const uint32_t count = config.max_queue_pairs;
  const auto start = static_cast<uint32_t>(worker->random_.Below(count));
  for (uint32_t i = 0; i < count; ++i) {
    worker->free_slots_.push_back(first_index + (start + i) % count);
  }
  return worker;
}

Worker::~Worker() {
  // What a core writes with every packet begins and ends with a cache line: two workers beside each
  // other in memory write none of the other's.
  static_assert(alignof(Worker) == 64 && sizeof(Worker) % 64 == 0);
  static_assert(alignof(Port) == 64 && sizeof(Port) % 64 == 0);
  static_assert(alignof(Slot) == 64 && sizeof(Slot) == 64);
  static_assert(alignof(Endpoint) == 64 && sizeof(Endpoint) % 64 == 0);
  static_assert(alignof(verbs::CompletionQueue) == 64 && sizeof(verbs::CompletionQueue) % 64 == 0);
  static_assert(alignof(verbs::SharedReceiveQueue) == 64 &&
                sizeof(verbs::SharedReceiveQueue) % 64 == 0);
  destroyed_.clear();
  gsi_slot_.reset();
  slots_.reset();
  ports_.clear();
  rte_mempool_free(packet_pool_);
}

transport::PollContext& Worker::Context(Port& port) {
  port.context.now_ns = now_ns_;
  return port.context;
}

// A queue pair has no port before it is in INIT; nothing is sent for it then.
Worker::Port& Worker::PortOf(const verbs::QueuePair& qp) {
  const size_t port_num = qp.attr.port_num;
  return *ports_[port_num >= 1 && port_num <= ports_.size() ? port_num - 1 : 0];
}

bool Worker::Poll(uint64_t now_ns, AckAction acks) {
  const uint64_t before_ns = now_ns_;
  now_ns_ = std::max(now_ns_, now_ns);
  ++core_counters_.polls;
  if (busy_) core_counters_.busy_ns += now_ns_ - before_ns;
  bool worked = false;
  for (auto& port : ports_) worked |= Receive(*port);
  worked |= wheel_.Advance(now_ns_) > 0;
  if (failed_count_ != 0) [[unlikely]]
    DeliverFailures();
  worked |= RunMailbox() > 0;
  worked |= RunPollers();
  if (acks == transport::AckPolicy::kSendNow && OwesAcks()) worked |= Acknowledge();
  if (!active_.empty()) worked |= Transmit();
  if (failed_count_ != 0) [[unlikely]]
    DeliverFailures();
  if (events_.size() != 0) [[unlikely]]
    DeliverEvents();
  if (!destroyed_.empty()) [[unlikely]]
    destroyed_.clear();
  for (auto& port : ports_) {
    ArmInterface(*port);
    if (!port->egress.empty()) port->egress.Flush(now_ns_);
  }
  busy_ = worked;
  if (worked) ++core_counters_.busy_polls;
  return worked;
}

[[gnu::always_inline]] inline bool Worker::Receive(Port& port) {
  std::array<rte_mbuf*, kBurst> frames;
  const uint16_t count = port.link->Receive(frames.data(), kBurst, now_ns_);
  if (count == 0) return port.steering != nullptr && port.steering->moved();
  TakeBurst(port, frames.data(), count);
  return true;
}

void Worker::TakeBurst(Port& port, rte_mbuf** frames, uint16_t count) {
  // The first two lines of the whole burst, which is all of short packets, come in while its first
  // frames are worked on.
  for (uint16_t i = 0; i < count; ++i) {
    rte_prefetch0(rte_pktmbuf_mtod(frames[i], void*));
    rte_prefetch0(rte_pktmbuf_mtod_offset(frames[i], void*, RTE_CACHE_LINE_SIZE));
  }
  port.counters.rcvd_pkts += count;
  transport::PollContext& context = Context(port);
  const Qpn before = arrivals_[0].packet.bth.dest_qpn;
  for (uint16_t i = 0; i < count; ++i) Parse(frames[i], &arrivals_[i]);
  // One that follows one to the same queue pair finds it warm.
  const bool warm = count == 1 && arrivals_[0].packet.bth.dest_qpn == before;
  for (uint16_t i = 0; !warm && i < count && i < kPrefetchAhead; ++i) Prefetch(i);
  unsigned done = 0;
  Burst burst;
  for (uint16_t i = 0; i < count; ++i) {
    if (i + kPrefetchAhead < count) Prefetch(static_cast<uint16_t>(i + kPrefetchAhead));
    port.counters.rcvd_bytes += frames[i]->pkt_len;
    if (Dispatch(port, frames[i], arrivals_[i], &burst, context)) frames[done++] = frames[i];
  }
  if (burst.called != nullptr) AfterCall(*burst.called);
  if (port.steering != nullptr) {
    port.steering->Free(frames, done);
  } else {
    FreeFrames(frames, done);
  }
}

// With many active queue pairs the slot of each is cold, and then all that it leads to.
void Worker::Parse(const rte_mbuf* frame, Arrival* arrival) const {
  arrival->result = wire::ParseResult::kNotRoce;
  if (frame->nb_segs != 1) [[unlikely]]
    return;
  arrival->result = wire::ParseRocePacket(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len,
                                          &arrival->packet);
  if (arrival->result != wire::ParseResult::kOk) return;
  const uint32_t index = PlaceOf(arrival->packet.bth.dest_qpn);
  if (index < slot_count_) rte_prefetch0(&slots_[index]);
}

// What packet number `i` of the burst leads to; once for packets in a row that lead to the same.
void Worker::Prefetch(uint16_t i) const {
  const Arrival& arrival = arrivals_[i];
  if (arrival.result != wire::ParseResult::kOk) return;
  const Qpn qpn = arrival.packet.bth.dest_qpn;
  const bool follows = i > 0 && arrivals_[i - 1].result == wire::ParseResult::kOk;
  if (follows && arrivals_[i - 1].packet.bth.dest_qpn == qpn) return;
  const uint32_t index = PlaceOf(qpn);
  if (index >= slot_count_ || slots_[index].endpoint == nullptr) return;
  slots_[index].endpoint->Prefetch(arrival.packet.info->is_response);
}

// True when the frame is done with, false when the interface has taken it over.
bool Worker::Dispatch(Port& port, rte_mbuf* frame, const Arrival& arrival, Burst* burst,
                      transport::PollContext& context) {
  if (frame->nb_segs != 1) [[unlikely]] {
    port.counters.Count(Drop::kScattered);
    return true;
  }
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  const wire::RocePacket& packet = arrival.packet;
  const wire::ParseResult result = arrival.result;
  if (result == wire::ParseResult::kNotRoce) {
    port.interface->OnFrame(frame, context);
    return false;
  }
  if (result != wire::ParseResult::kOk) {
    port.counters.Count(DropOf(result));
  } else if (packet.bth.dest_qpn == kMulticastQpn) {
    DispatchMulticast(*port.interface, bytes, packet, context);
  } else if (!IsOurs(port, packet)) {
    port.counters.Count(Drop::kNotForUs);
  } else if (Slot* slot = FindSlot(packet.bth.dest_qpn, port.counters)) {
    // Once for packets in a row that lead to the same.
    if (burst->called != slot && burst->called != nullptr) AfterCall(*burst->called);
    burst->called = slot;
    slot->endpoint->OnPacket(packet, context);
  }
  return true;
}

// Whether its addresses are the port's; without a look at them when they are those of the last one.
[[gnu::always_inline]] inline bool Worker::IsOurs(Port& port, const wire::RocePacket& packet) {
  // The first fourteen bytes in two words that overlap, then both IP addresses.
  static_assert(wire::kEthernetBytes == 14);
  constexpr size_t kAddresses = wire::kEthernetBytes + wire::ipv4::kSource;
  const uint8_t* frame = packet.frame;
  const bool plain = packet.ip_version == 4 && packet.l3_offset == wire::kEthernetBytes;
  Port::Known& known = port.known;
  if (plain && known.of == port.interface->addresses_state() && known.words[0] == LoadBe64(frame) &&
      known.words[1] == LoadBe64(frame + 6) && known.words[2] == LoadBe64(frame + kAddresses))
      [[likely]] {
    return true;
  }
  if (!port.interface->IsOurs(frame, packet.destination())) return false;
  if (plain) {
    known = {.of = port.interface->addresses_state(),
             .words = {LoadBe64(frame), LoadBe64(frame + 6), LoadBe64(frame + kAddresses)}};
  }
  return true;
}

// The slot that answers to `qpn`; null, and counted, when there is none.
Worker::Slot* Worker::FindSlot(Qpn qpn, transport::Counters& counters) {
  const io::QpnLayout& layout = config_.qpn_layout;
  // A number in use says whose it is as a whole.
  const uint32_t place = PlaceOf(qpn);
  if (place < slot_count_ && slots_[place].qpn == qpn && slots_[place].endpoint != nullptr)
      [[likely]]
    return &slots_[place];
  Slot* slot = nullptr;
  if (qpn == kGsiQpn) {
    slot = gsi_slot_.get();
  } else if (layout.worker(qpn) == config_.index) {
    if (place < slot_count_) slot = &slots_[place];
  }
  // Of another worker, or nobody's.
  if (slot == nullptr || slot->endpoint == nullptr) {
    counters.Count(Drop::kUnknownQpn);
    return nullptr;
  }
  if (slot->qpn != qpn) {
    counters.Count(Drop::kStaleQpn);
    return nullptr;
  }
  return slot;
}

Worker::Slot& Worker::SlotOf(const verbs::QueuePair& qp) {
  return qp.qpn() == kGsiQpn ? *gsi_slot_ : slots_[PlaceOf(qp.qpn())];
}

uint32_t Worker::IndexOf(const Slot& slot) const {
  return static_cast<uint32_t>(&slot - slots_.get());
}

void Worker::MoveTimer(Slot& slot, uint64_t deadline_ns) {
  if (deadline_ns != Endpoint::kNever) {
    wheel_.Arm(slot.timer, deadline_ns);
  } else {
    // While its neighbours in the wheel are warm: with many queue pairs that send one message at a
    // time, one that fires for nothing would find all of it cold.
    slot.timer.Cancel();
  }
}

void Worker::DeliverFailures() {
  const uint32_t count = std::exchange(failed_count_, 0);
  for (uint32_t i = 0; i < count; ++i) {
    const Qpn qpn = failed_[i];
    const Slot* slot = qpn == kGsiQpn ? gsi_slot_.get() : &slots_[PlaceOf(qpn)];
    for (const auto& weak : failure_observers_) {
      const std::shared_ptr<FailureObserver> observer = weak.lock();
      if (observer == nullptr) continue;
      // The one before may have destroyed it.
      if (slot == nullptr || slot->qpn != qpn || slot->endpoint == nullptr) break;
      observer->OnQpFailure(slot->endpoint->qp, slot->endpoint->journal());
    }
  }
}

void Worker::AddFailureObserver(std::weak_ptr<FailureObserver> observer) {
  std::erase_if(failure_observers_, [](const auto& weak) { return weak.expired(); });
  failure_observers_.push_back(std::move(observer));
}

void Worker::OnSlotTimer(void* context, uint64_t) {
  Slot& slot = *static_cast<Slot*>(context);
  Worker& worker = *slot.worker;
  if (slot.endpoint == nullptr) {  // the quarantine is over
    worker.free_slots_.push_back(worker.IndexOf(slot));
    return;
  }
  if (slot.endpoint->deadline_ns() <= worker.now_ns_) {
    slot.endpoint->OnDeadline(worker.Context(worker.PortOf(slot.endpoint->qp)));
  }
  worker.AfterCall(slot);
}

void Worker::OnInterfaceTimer(void* context, uint64_t) {
  Port& port = *static_cast<Port*>(context);
  if (port.interface->deadline_ns() > port.worker->now_ns_) return;
  port.interface->OnDeadline(port.worker->Context(port));
}

void Worker::ArmInterface(Port& port) {
  const uint64_t deadline = port.interface->deadline_ns();
  if (deadline != Endpoint::kNever &&
      (!port.timer.armed() || port.timer.deadline_ns() > deadline)) {
    wheel_.Arm(port.timer, deadline);
  }
}

void Worker::AddPoller(Poller* poller) { pollers_.push_back(poller); }

void Worker::RemovePoller(Poller* poller) {
  std::replace(pollers_.begin(), pollers_.end(), poller, static_cast<Poller*>(nullptr));
  poller_removed_ = true;
}

// By index: pollers add and remove pollers.
bool Worker::RunPollers() {
  bool worked = false;
  for (size_t i = 0; i < pollers_.size(); ++i) {
    Poller* const poller = pollers_[i];
    if (poller != nullptr) [[likely]]
      worked |= poller->Poll(now_ns_);
  }
  if (poller_removed_) [[unlikely]] {
    poller_removed_ = false;
    std::erase(pollers_, nullptr);
  }
  return worked;
}

// What is owed for what came in this poll leaves with it, however many queue pairs wait for turns.
bool Worker::Acknowledge() {
  bool worked = false;
  for (size_t left = kAcknowledgements * ports_.size(); left > 0; --left) {
    verbs::QueuePair* qp = active_.owed_acks().Pop();
    if (qp == nullptr) break;
    Port& port = PortOf(*qp);
    if (port.egress.room() == 0) port.egress.Flush(now_ns_);
    if (!Endpoint::Of(qp)->Acknowledge(Context(port))) {
      qp->ActivateAck();
      if (ports_.size() == 1) break;
      continue;
    }
    AfterCall(SlotOf(*qp));
    worked = true;
  }
  return worked;
}

bool Worker::Transmit() {
  bool worked = false;
  int packets = 0;
  for (int turn = 0; turn < kTransmitTurns && packets < kTransmitPackets && !active_.empty();
       ++turn) {
    if (turn % kPrefetchTurns == 0) {
      active_.VisitFirst(kPrefetchTurns, [this](verbs::QueuePair* qp) {
        Endpoint::Of(qp)->Prefetch(true);
        rte_prefetch0(&SlotOf(*qp));
      });
    }
    Port& port = PortOf(*active_.front());
    if (port.egress.room() == 0) port.egress.Flush(now_ns_);
    if (port.egress.room() == 0) {
      if (ports_.size() == 1) break;
      active_.Push(active_.Pop());
      continue;
    }
    const uint64_t sent = port.counters.sent_pkts;
    const uint16_t room = port.egress.room();
    verbs::QueuePair* qp = active_.Pop();
    port.egress.BeginTurn(kTransmitBytes);
    const bool more = Endpoint::Of(qp)->Transmit(Context(port), kTransmitBudget);
    if (more) active_.Push(qp);
    AfterCall(SlotOf(*qp));
    const int pushed = static_cast<int>(port.counters.sent_pkts - sent) + room - port.egress.room();
    // Who could not send although it has more counts as if it had: there may be no buffers.
    packets += pushed == 0 && more ? kTransmitBudget : pushed;
    // The peer works on them while the next are made.
    if (port.egress.TurnIsOver()) port.egress.Flush(now_ns_);
    // One that could not send although it has more waits for buffers: that is idling.
    worked |= !more || pushed > 0;
  }
  return worked;
}

// Handlers may do anything, raise events and destroy what raised theirs too. What they raise waits
// for the next poll.
void Worker::DeliverEvents() {
  for (uint32_t count = events_.size(); count > 0; --count) {
    verbs::EventSource* source = events_.Pop();
    if (source == nullptr) return;
    source->DeliverEvents();
  }
}

}  // namespace pollux::engine
