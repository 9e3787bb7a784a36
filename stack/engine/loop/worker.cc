#include "stack/engine/loop/worker.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "stack/engine/loop/worker_parts.h"
#include "stack/io/link/mbuf_cache.h"
#include "stack/io/link/packet_pool.h"
#include "stack/io/steering/steering.h"
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
      random_(config.seed),
      wheel_(config.start_ns),
      now_ns_(config.start_ns),
      memory_(config.max_objects, config.max_regions, &random_),
      qps_(config.qpn_layout, config.index, config.max_queue_pairs, &random_,
           &Worker::OnQueuePairTimer, this),
      cqs_(config.max_objects, &events_, &destroyed_),
      srqs_(config.max_objects, &events_, &destroyed_),
      ahs_(config.max_objects),
      stats_(this) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(const WorkerConfig& config) {
  if (absl::Status status =
          QueuePairTable::Check(config.qpn_layout, config.index, config.max_queue_pairs);
      !status.ok()) {
    return status;
  }
  std::unique_ptr<Worker> worker(new Worker(config));
  worker->packet_pool_ =
      io::CreatePacketPool(UniqueName("packets", config.index), config.packet_buffers,
                           std::min(kPoolCache, config.packet_buffers / 4),
                           static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + config.max_frame_bytes));
  if (worker->packet_pool_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "worker %u: no memory for %u packet buffers of %u bytes (%s); raise the process's memory "
        "limit or --memory",
        config.index, config.packet_buffers, config.max_frame_bytes, rte_strerror(rte_errno)));
  }
  return worker;
}

Worker::~Worker() {
  // What a core writes with every packet begins and ends with a cache line: two workers beside each
  // other in memory write none of the other's.
  static_assert(alignof(Worker) == 64 && sizeof(Worker) % 64 == 0);
  static_assert(alignof(Port) == 64 && sizeof(Port) % 64 == 0);
  static_assert(alignof(Endpoint) == 64 && sizeof(Endpoint) % 64 == 0);
  static_assert(alignof(verbs::CompletionQueue) == 64 && sizeof(verbs::CompletionQueue) % 64 == 0);
  static_assert(alignof(verbs::SharedReceiveQueue) == 64 &&
                sizeof(verbs::SharedReceiveQueue) % 64 == 0);
  destroyed_.clear();
  qps_.Clear();
  ports_.clear();
  rte_mempool_free(packet_pool_);
}

bool Worker::Poll(uint64_t now_ns, AckAction acks) {
  AdvanceClock(now_ns);
  ++core_counters_.polls;
  bool worked = false;
  for (auto& port : ports_) worked |= Receive(*port);
  // What a timer leads to shows below; most only look, at the kernel and at the link.
  wheel_.Advance(now_ns_);
  // Before pollers see the completions of queue pairs that have failed.
  if (!failures_.empty()) [[unlikely]]
    failures_.Deliver(qps_);
  worked |= RunMailbox() > 0;
  worked |= pollers_.Run(now_ns_);
  if (OwesAcks() && acks == transport::AckPolicy::kSendNow) worked |= scheduler_.Acknowledge(*this);
  if (!scheduler_.empty()) worked |= scheduler_.Transmit(*this);
  if ((failures_.size() | events_.size()) != 0 || !destroyed_.empty()) [[unlikely]]
    EndTurn();
  for (auto& port : ports_) {
    if (port->interface->TakeNewDeadline()) [[unlikely]]
      ArmInterface(*port);
    if (!port->egress.empty()) port->egress.FlushAtEndOfTurn(now_ns_);
  }
  busy_ = worked;
  if (worked) ++core_counters_.busy_polls;
  return worked;
}

[[gnu::always_inline]] inline bool Worker::Receive(Port& port) {
  const uint16_t count = port.link->Receive(frames_.data(), kBurst, now_ns_);
  if (count == 0) return port.steering != nullptr && port.steering->moved();
  TakeBurst(port, count);
  return true;
}

void Worker::TakeBurst(Port& port, uint16_t count) {
  rte_mbuf** const frames = frames_.data();
  port.counters.rcvd_pkts += count;
  if (count == 1) {
    const Qpn before = arrivals_[0].dest_qpn;
    rte_prefetch0(rte_pktmbuf_mtod_offset(frames[0], void*, RTE_CACHE_LINE_SIZE));
    Prepare(frames[0], &arrivals_[0]);
    // One that follows one to the same queue pair finds it warm.
    if (arrivals_[0].dest_qpn != before) Prefetch(0);
  } else {
    LookAhead(count);
  }
  transport::PollContext& context = Context(port);
  bool all_done = true;
  Burst burst{.address_version = AddressVersion(port)};
  burst_ = &burst;
  for (uint16_t i = 0; i < count; ++i) {
    if (i + kPrefetchAhead < count) Prefetch(static_cast<uint16_t>(i + kPrefetchAhead));
    port.counters.rcvd_bytes += frames[i]->pkt_len;
    if (!Dispatch(port, frames[i], arrivals_[i], &burst, context)) [[unlikely]] {
      frames[i] = nullptr;
      all_done = false;
    }
  }
  burst_ = nullptr;
  if (burst.called != nullptr) AfterCall(*burst.called);
  if (!all_done || port.steering != nullptr) [[unlikely]] {
    FreeTaken(port, count);
  } else {
    io::FreeMbufs(frames, count);
  }
}

// The first two lines of the whole burst, which is all of short packets, come in while its first
// frames are worked on.
[[gnu::noinline]] void Worker::LookAhead(uint16_t count) {
  rte_mbuf** const frames = frames_.data();
  for (uint16_t i = 0; i < count; ++i) {
    rte_prefetch0(rte_pktmbuf_mtod(frames[i], void*));
    rte_prefetch0(rte_pktmbuf_mtod_offset(frames[i], void*, RTE_CACHE_LINE_SIZE));
  }
  for (uint16_t i = 0; i < count; ++i) Prepare(frames[i], &arrivals_[i]);
  for (uint16_t i = 0; i < count && i < kPrefetchAhead; ++i) Prefetch(i);
}

// Out of line, so that TakeBurst() saves no registers for it. Null: the interface has taken it.
[[gnu::noinline]] void Worker::FreeTaken(Port& port, uint16_t count) {
  rte_mbuf** const frames = frames_.data();
  count = static_cast<uint16_t>(std::remove(frames, frames + count, nullptr) - frames);
  if (port.steering != nullptr) {
    port.steering->Free(frames, count);
  } else {
    io::FreeMbufs(frames, count);
  }
}

// With many active queue pairs the slot of each is cold, and then all that it leads to.
[[gnu::always_inline]] inline void Worker::Prepare(const rte_mbuf* frame, Arrival* arrival) const {
  *arrival = {.frame = rte_pktmbuf_mtod(frame, const uint8_t*),
              .length = frame->nb_segs == 1 ? size_t{frame->data_len} : 0,
              .dest_qpn = {}};
  if (arrival->length < wire::ExpectedHeaders::kMinFrameBytes ||
      !wire::ExpectedHeaders::IsIpv4(arrival->frame)) [[unlikely]] {
    return;
  }
  arrival->dest_qpn = wire::ExpectedHeaders::DestQpn(arrival->frame);
  qps_.PrefetchSlot(arrival->dest_qpn);
}

// What packet number `i` of the burst leads to; once for packets in a row that lead to the same.
[[gnu::always_inline]] inline void Worker::Prefetch(uint16_t i) const {
  const Qpn qpn = arrivals_[i].dest_qpn;
  if (qpn == Qpn{} || (i > 0 && arrivals_[i - 1].dest_qpn == qpn)) return;
  const wire::OpcodeInfo* info = wire::ExpectedHeaders::OpcodeInfoOf(arrivals_[i].frame);
  qps_.PrefetchEndpoint(qpn, info != nullptr && info->is_response);
}

// Another one for each port and each change of its addresses; never 0.
[[gnu::always_inline]] inline uint32_t Worker::AddressVersion(const Port& port) {
  return uint32_t{port.port_num} << 24 | (port.interface->address_version() & 0xFFFFFF);
}

// True when the frame is done with, false when the interface has taken it over.
[[gnu::always_inline]] inline bool Worker::Dispatch(Port& port, rte_mbuf* frame,
                                                    const Arrival& arrival, Burst* burst,
                                                    transport::PollContext& context) {
  Slot* slot = burst->called;
  if (slot == nullptr || arrival.dest_qpn != slot->qpn || slot->qpn == kGsiQpn) {
    slot = qps_.FindInUse(arrival.dest_qpn);
  }
  if (slot != nullptr) [[likely]] {
    // Before the call: a message handler may destroy the queue pair.
    NoteCalled(*slot, burst);
    if (slot->endpoint->TryExpectedFrame(arrival.frame, arrival.length, context,
                                         burst->address_version)) [[likely]] {
      return true;
    }
  }
  return DispatchParsed(port, frame, arrival, burst, context);
}

// Once for packets in a row that lead to the same.
[[gnu::always_inline]] inline void Worker::NoteCalled(Slot& slot, Burst* burst) {
  if (burst->called != &slot && burst->called != nullptr) AfterCall(*burst->called);
  burst->called = &slot;
}

bool Worker::DispatchParsed(Port& port, rte_mbuf* frame, const Arrival& arrival, Burst* burst,
                            transport::PollContext& context) {
  if (frame->nb_segs != 1) [[unlikely]] {
    port.counters.Count(Drop::kScattered);
    return true;
  }
  wire::RocePacket packet;
  const wire::ParseResult result = wire::ParseRocePacket(arrival.frame, arrival.length, &packet);
  if (result == wire::ParseResult::kNotRoce) {
    port.interface->OnFrame(frame, context);
    return false;
  }
  if (result != wire::ParseResult::kOk) {
    port.counters.Count(DropOf(result));
  } else if (packet.bth.dest_qpn == kMulticastQpn) {
    DispatchMulticast(*port.interface, packet, context);
  } else if (!port.interface->IsOurs(packet)) {
    port.counters.Count(Drop::kNotForUs);
  } else if (Slot* slot = qps_.Find(packet.bth.dest_qpn, port.counters)) {
    slot->endpoint->OnPacket(packet, context, burst->address_version);
    NoteCalled(*slot, burst);
  }
  return true;
}

void Worker::DispatchMulticast(const ip::Interface& interface, const wire::RocePacket& packet,
                               transport::PollContext& context) {
  const MulticastGroups::Members* members = groups_.Find(packet.destination());
  if (members == nullptr || !interface.IsOfGroup(packet.frame, packet.destination())) {
    context.counters.Count(Drop::kNotForUs);
    return;
  }
  for (verbs::QueuePair* qp : *members) {
    Endpoint::Of(qp)->OnPacket(packet, context);
    AfterCall(SlotOf(*qp));
  }
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

void Worker::OnInterfaceTimer(void* context, uint64_t) {
  Port& port = *static_cast<Port*>(context);
  // Fires early if the deadline has become later since the timer was armed.
  if (port.interface->deadline_ns() > port.worker->now_ns_) return port.worker->ArmInterface(port);
  port.interface->OnDeadline(port.worker->Context(port));
}

void Worker::ArmInterface(Port& port) {
  const uint64_t deadline = port.interface->deadline_ns();
  if (deadline != Endpoint::kNever &&
      (!port.timer.armed() || port.timer.deadline_ns() > deadline)) {
    wheel_.Arm(port.timer, deadline);
  }
}

void Worker::EndTurn() {
  if (!failures_.empty()) failures_.Deliver(qps_);
  if (events_.size() != 0) DeliverEvents();
  destroyed_.clear();
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
