// One of the two hosts of a random RC program.
#ifndef POLLUX_TESTS_SIM_RC_SIDE_H_
#define POLLUX_TESTS_SIM_RC_SIDE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stack/base/random.h"
#include "stack/engine/worker.h"
#include "tests/sim/arena.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

// One work request of the program.
struct RcOperation {
  ibv_wr_opcode opcode;
  uint32_t length;
  uint32_t immediate;
  bool signaled;
  size_t local = 0;           // offset in the poster's arena
  size_t remote = 0;          // in the peer's: WRITE target, READ source
  size_t receive = 0;         // in the peer's: the buffer of the receive that it takes
  uint32_t receive_size = 0;  // bytes of that buffer
  int flags = 0;              // ibv_send_flags beside IBV_SEND_SIGNALED
  uint32_t invalidate = 0;    // the peer's key to invalidate
  // Of an atomic: which of the peer's words, its operands, what it must find and leave.
  uint32_t word = 0;
  uint64_t compare_add = 0, swap = 0;
  uint64_t found = 0, left = 0;

  bool takes_receive() const {
    return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ && !is_atomic();
  }
  bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_write() const {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool has_immediate() const {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
};

// What both sides share.
struct RcLog {
  std::string violation;  // the first
  uint64_t digest = 0xCBF29CE484222325;

  void Violate(const std::string& what) {
    if (violation.empty()) violation = what;
  }
  void Digest(uint64_t value) { digest = (digest ^ value) * 0x100000001B3; }
};

class RcSide : public engine::Poller {
 public:
  static constexpr uint32_t kMaxElements = 3;
  static constexpr uint32_t kWords = 3;    // for atomics
  static constexpr uint32_t kInline = 64;  // bytes

  RcSide(const std::string& name, Node& node, unsigned slot, uint64_t seed, RcLog* log);
  ~RcSide() override;

  // In this order, each on both sides: draw the program, lay out the memory, connect.
  void DrawOperations(int count, uint32_t max_length);
  void LayOut(RcSide& peer);
  void Create(uint32_t depth);
  void Connect(const ibv_qp_attr& common);

  bool Poll(uint64_t now_ns) override;
  // All of the program has completed, here and of the peer's what ends here.
  bool finished() const;
  // In words, for the message when it does not finish.
  std::string Progress() const;
  // After the end: a WRITE through `key`, which the peer has deregistered; and one behind it.
  void PostStale(uint32_t key, uint64_t address);
  bool stale_finished() const { return stale_completions_ == 2; }
  // A key that named memory once.
  uint32_t MakeStaleKey();
  uint64_t target_address() { return Address(target_start_); }
  // Checks memory, destroys all objects.
  void Finish();

 private:
  uint64_t Address(size_t offset) { return reinterpret_cast<uint64_t>(arena_->at(offset)); }
  void Violate(const std::string& what);
  void DrawAtomic(RcOperation& operation);
  void MapInvalidated();
  void Reserve(size_t* end, size_t length, size_t* offset);
  std::vector<ibv_sge> Split(size_t offset, uint32_t length, uint32_t key);
  bool PostSends();
  bool PostReceives();
  void OnCompletion(const ibv_wc& wc, uint64_t now_ns);
  void OnSent(const RcOperation& operation);
  void OnReceived(const ibv_wc& wc);
  void CheckInvalidated(const RcOperation& operation, const ibv_wc& wc);

  std::string name_;
  Node& node_;
  unsigned slot_;
  Random random_;
  RcLog* log_;
  RcSide* peer_ = nullptr;

  std::vector<RcOperation> operations_;
  std::vector<const RcOperation*> receives_;  // the peer's that take a receive here, in order
  size_t posted_ = 0, completed_ = 0;
  size_t receives_posted_ = 0, received_ = 0;
  uint32_t depth_ = 0;
  bool stale_phase_ = false;
  int stale_completions_ = 0;

  std::unique_ptr<Arena> arena_;
  size_t arena_bytes_ = 0;
  size_t target_start_ = 0, target_end_ = 0;  // what the peer writes
  size_t source_start_ = 0, source_end_ = 0;  // what the peer reads
  size_t words_start_ = 0;                    // what the peer's atomics change
  uint64_t drawn_words_[kWords] = {};         // of the peer, after all that is drawn
  memory::MemoryRegion local_, target_, source_, words_;
  std::vector<uint32_t> invalidated_;  // keys of this side that the peer invalidates
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_SIDE_H_
