// One end of a connection, or a datagram queue pair, whose application may fail in the middle of a
// message; and its host.
#ifndef POLLUX_TESTS_SIM_FAILING_END_H_
#define POLLUX_TESTS_SIM_FAILING_END_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "stack/base/random.h"
#include "stack/engine/loop/worker.h"
#include "tests/sim/arena.h"
#include "tests/sim/log.h"
#include "tests/sim/simulated_fault.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

class FailingEnd;

// The objects that the ends of a host share: a completion queue and, optionally, a shared receive
// queue. It is the worker's poller for all ends.
class FailingHost : public engine::Poller {
 public:
  static constexpr uint32_t kSharedReceives = 16;
  static constexpr uint32_t kMaxMessage = 16384;            // bytes
  static constexpr size_t kBufferBytes = 40 + kMaxMessage;  // per shared receive
  static constexpr size_t kGapBytes = 64;                   // between shared receives

  FailingHost(Node& node, unsigned arena_slot, bool shares_receives, uint64_t seed, Log* log);
  // After `polls` polls, stops taking completions from the queue, which is made as small as
  // possible, until one is lost or Resume() is called.
  void StallAfter(uint64_t polls) { stall_in_ = polls + 1; }
  void Resume();
  // A completion was lost, so no queue pair of this host works any more.
  bool overran() const { return overran_; }
  ~FailingHost() override;

  bool Poll(uint64_t now_ns) override;
  void Add(FailingEnd* end);
  void Remove(FailingEnd* end);
  // From now on nothing may complete for this queue pair number.
  void Retire(Qpn qpn) { retired_.insert(qpn.value); }
  // Counts a queue pair that may have been destroyed with a receive in use.
  void CountLostReceive() { ++may_be_lost_; }
  void PollCompletions();
  // Destroys everything. Call it after all ends were destroyed.
  void Finish();

  Node& node() { return node_; }
  engine::Worker& worker() { return node_.worker(); }
  memory::ProtectionDomain* pd() { return pd_; }
  verbs::CompletionQueue* cq() { return cq_; }
  verbs::SharedReceiveQueue* srq() { return srq_; }
  Arena& arena() { return *arena_; }
  // The offset of a shared receive in arena().
  static size_t SharedPlace(uint64_t wr_id) { return wr_id * (kBufferBytes + kGapBytes); }

 private:
  bool PostShared();
  void Dispatch(const ibv_wc& wc);
  void Stall();
  void OnOverrun();

  Node& node_;
  Random random_;
  Log* log_;
  memory::ProtectionDomain* pd_;
  verbs::CompletionQueue* cq_;
  uint64_t stall_in_ = 0;  // in polls; 0: never, 1: now
  bool stalled_ = false;
  bool overran_ = false;
  verbs::SharedReceiveQueue* srq_ = nullptr;
  std::unique_ptr<Arena> arena_;  // for shared receives
  memory::MemoryRegion region_;
  std::vector<uint32_t> free_receives_;
  uint32_t may_be_lost_ = 0;
  std::map<uint32_t, FailingEnd*> ends_;  // by queue pair number
  std::set<uint32_t> retired_;
};

// A work request and its state.
struct FailingMessage {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  uint32_t length = 0;
  uint32_t immediate = 0;
  bool signaled = true;
  size_t local = 0;    // offset in the sender's arena
  size_t remote = 0;   // offset in the peer's arena, for WRITE and READ
  uint64_t value = 0;  // what a fetch-and-add adds, or an ATOMIC WRITE writes
  bool received = false;

  bool is_write() const {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool is_atomic() const { return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD; }
  bool is_atomic_write() const { return opcode == IBV_WR_ATOMIC_WRITE; }
  bool changes_word() const { return is_atomic() || is_atomic_write(); }
  bool is_flush() const { return opcode == verbs::kWrFlush; }
  // The word at the peer after this message, if it was `word` before.
  uint64_t WordAfter(uint64_t word) const {
    return is_atomic() ? word + value : is_atomic_write() ? value : word;
  }
  bool takes_receive() const {
    return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ && !changes_word() &&
           !is_flush();
  }
  bool has_immediate() const {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
};

class FailingEnd {
 public:
  // One use of a queue pair: `qp` is a queue pair in RESET that was used before, or null for a new
  // one.
  FailingEnd(std::string name, FailingHost& host, ibv_qp_type type, verbs::QueuePair* qp,
             uint64_t seed, Log* log);

  // Call these in this order, each on both ends.
  void Draw(int messages, uint32_t max_length, SimulatedFault fault);
  void LayOut(FailingEnd& peer, unsigned arena_slot);
  // `in_order`: the network neither reorders nor duplicates.
  void Connect(ibv_qp_attr attr, uint32_t own_psn, uint32_t peer_psn, bool in_order);

  // Called by the host's poll.
  bool Run();
  // The host's completion queue has lost a completion.
  void OnCompletionsLost();
  void OnCompletion(const ibv_wc& wc);

  // All its sends have completed or never will. For a reliable connection without a fault, it has
  // also received everything.
  bool settled() const;
  std::string Progress() const;
  // Call it when both ends are settled: flushes what is still posted, and checks that everything is
  // accounted for.
  void CheckAndStop();
  // Call these when both ends have stopped, the first one on both ends, then the second one.
  // SettleMemory() accepts old or new contents for unfinished requests; CheckMemory() checks that
  // nothing else has changed.
  void SettleMemory();
  void CheckMemory();
  // Returns the queue pair in RESET for another use, or null.
  verbs::QueuePair* Release(bool destroy);

  Qpn qpn() const { return qpn_; }
  SimulatedFault fault() const { return fired_ ? fault_ : SimulatedFault::kNone; }
  // Messages that were sent and never received.
  uint64_t lost_messages() const;
  // The network took more retries than the queue pair has; no fault explains it.
  bool gave_up() const { return first_error_ == IBV_WC_RETRY_EXC_ERR && !fired_ && !peer_->fired_; }
  bool failed() const { return first_error_ != IBV_WC_SUCCESS || receive_failed_; }

 private:
  static constexpr size_t kReceiveGapBytes = 256;  // between receives

  bool reliable() const { return type_ == IBV_QPT_RC; }
  uint32_t ReceiveBytes() const { return grh_bytes() + FailingHost::kMaxMessage; }
  size_t ReceivePlace(uint64_t wr_id) const {
    return receives_start_ + wr_id * (ReceiveBytes() + kReceiveGapBytes);
  }
  uint32_t grh_bytes() const { return type_ == IBV_QPT_UD ? 40 : 0; }
  uint64_t Address(size_t offset) { return reinterpret_cast<uint64_t>(arena_->at(offset)); }
  void Violate(const std::string& what);
  void Reserve(size_t length, size_t* offset);
  void Register();
  void Fire();
  void Destroy();
  bool PostSends();
  int Post(const FailingMessage& message);
  bool PostReceives();
  void OnSendCompletion(const ibv_wc& wc);
  void OnSent(const FailingMessage& message);
  void OnReceiveCompletion(const ibv_wc& wc);
  void OnReceived(const ibv_wc& wc, Arena& arena, size_t place);
  const FailingMessage* Match(const ibv_wc& wc, const uint8_t* data);
  bool IsIt(const FailingMessage& message, const ibv_wc& wc, const uint8_t* data);
  void Deregister(memory::MemoryRegion& region);
  void WordBefore(const FailingMessage& message, uint8_t (&bytes)[8]) const;
  void CheckUnfinished(const FailingMessage& message);
  uint64_t ReceivesSentFor(size_t messages) const;

  std::string name_;
  FailingHost& host_;
  ibv_qp_type type_;
  verbs::QueuePair* qp_;
  Qpn qpn_;
  Random random_;
  Log* log_;
  FailingEnd* peer_ = nullptr;
  bool in_order_ = true;
  bool few_retries_ = false;  // perhaps too few for the network, at both ends

  std::vector<FailingMessage> messages_;
  size_t posted_ = 0, completed_ = 0, succeeded_ = 0;
  ibv_wc_status first_error_ = IBV_WC_SUCCESS;
  SimulatedFault fault_ = SimulatedFault::kNone;
  size_t fault_after_ = 0;  // posted requests
  // SimulatedFault::kLocalGone affects only request `fault_after_`, which has memory of its own.
  bool affects_one_ = false;
  bool fired_ = false;

  size_t receives_posted_ = 0, receives_completed_ = 0;
  size_t matched_ = 0;  // the peer's messages before this one are received or lost
  size_t received_ = 0;
  bool receive_failed_ = false;

  std::unique_ptr<Arena> arena_;
  size_t end_ = 0;
  size_t receives_start_ = 0, target_start_ = 0, word_ = 0;
  memory::MemoryRegion local_, receive_, target_;
  memory::MemoryRegion own_;  // of request `fault_after_` if affects_one_
  verbs::AddressHandle* ah_ = nullptr;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_FAILING_END_H_
