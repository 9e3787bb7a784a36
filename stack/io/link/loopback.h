// Loops back the frames that a port sends to itself. They are not sent to the wire, but received as
// if from there: by this process, or by another one that shares the port's interface.
#ifndef POLLUX_STACK_IO_LINK_LOOPBACK_H_
#define POLLUX_STACK_IO_LINK_LOOPBACK_H_

#include <array>
#include <cstdint>

#include "stack/base/qpn_layout.h"
#include "stack/base/types.h"
#include "stack/io/link/link.h"

struct rte_mempool;

namespace pollux::io {

struct LoopbackCounters {
  uint64_t passed = 0;
  uint64_t no_buffer = 0;          // lost: the pool was empty, or its buffers too short
  uint64_t to_processes = 0;       // sent to the processes that share the interface
  uint64_t to_processes_lost = 0;  // not sent to them, since their link takes no more
  uint64_t from_processes = 0;     // received from them, and from this process's queue pair 1
};

// Loops back frames to the port's own MAC address, as RDMA devices loop back what a queue pair
// sends to another of the same port; multicast is not looped back. Its place is directly above a
// port, below capture and impairment. Owned by the worker that owns the link below. Takes no heap
// memory after construction.
class Loopback : public Link {
 public:
  static constexpr uint16_t kCapacity = 256;  // as a port's queue; if it is full, Send() stops

  // The arguments are not owned and must outlive this object. `mac` is the port's address, which
  // may change. `pool` is the pool of received frames, because a looped-back frame is a copy in one
  // segment.
  Loopback(Link* link, const MacAddress* mac, rte_mempool* pool)
      : link_(link), mac_(mac), pool_(pool) {}
  // Connects the processes that share the port's interface: frames to the port's own address and
  // to queue pair 1, or to a number that `layout` does not hold, are sent to `processes`, from
  // which each process receives its own. Not owned. Before the first call of Send().
  void ShareWith(Link* processes, const QpnLayout& layout) {
    processes_ = processes;
    layout_ = layout;
  }
  ~Loopback() override { Clear(); }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // Frees every frame kept here. Call it at shutdown, before the packet pools are destroyed.
  void Clear();
  const LoopbackCounters& counters() const { return counters_; }

 private:
  // Not inline, or Receive() would save registers in turns without work.
  [[gnu::noinline]] uint16_t ReceiveLooped(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns);
  uint16_t SendSeveral(rte_mbuf** frames, uint16_t count, uint64_t now_ns);
  uint16_t SendMixed(rte_mbuf** frames, uint16_t count, uint64_t now_ns);
  bool IsOwn(const rte_mbuf* frame) const;
  // Queues a copy of `frame` and frees `frame`. Returns false, without freeing it, if the queue is
  // full.
  bool TurnBack(rte_mbuf* frame);
  // For frames of which the first is for the processes: sends it, and those that follow it and are
  // for them too. Returns how many these are; those that cannot be sent are freed.
  uint16_t SendToProcesses(rte_mbuf** frames, uint16_t count, uint64_t now_ns);
  // For a frame for which IsOwn() is true.
  bool IsForProcesses(const rte_mbuf* frame) const;

  Link* link_;
  Link* processes_ = nullptr;  // null: no other process shares the interface
  QpnLayout layout_;
  const MacAddress* mac_;
  rte_mempool* pool_;
  LoopbackCounters counters_;
  uint16_t head_ = 0;
  uint16_t count_ = 0;
  std::array<rte_mbuf*, kCapacity> queue_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_LINK_LOOPBACK_H_
