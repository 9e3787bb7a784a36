// The work requests of a random RC program, drawn before anything runs.
#ifndef POLLUX_TESTS_SIM_RC_OPERATION_H_
#define POLLUX_TESTS_SIM_RC_OPERATION_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stack/base/random.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::sim {

inline constexpr uint32_t kRcInline = 64;  // bytes
inline constexpr uint32_t kRcWords = 3;    // per side, for atomics

// Memory that a side makes accessible with a separate key by a work request, and later revokes. It
// is used by the side's own requests, or by those of its peer, between two messages that announce
// it.
struct ExposedRegion {
  enum class Kind : uint8_t { kFastRegion, kWindowType1, kWindowType2 };
  Kind kind;
  size_t object;      // number of its owner's fast region or window, which later exposures reuse
  size_t offset = 0;  // in its owner's arena
  uint32_t length = 0;
  uint32_t key = 0;    // set when it is posted
  bool known = false;  // mapped or bound
};

// One work request of the program.
struct RcOperation {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  double when = 0;  // its position in the program of both sides
  uint32_t length = 0;
  uint32_t immediate = 0;
  bool signaled = true;
  size_t local = 0;           // offset in the arena of this side
  size_t remote = 0;          // offset in the peer's arena: WRITE target, READ source
  size_t receive = 0;         // offset in the peer's arena: the buffer of the receive that it uses
  uint32_t receive_size = 0;  // size of that buffer
  int flags = 0;              // ibv_send_flags besides IBV_SEND_SIGNALED
  uint32_t invalidate = 0;    // the peer's key to invalidate, if it is not that of an exposure
  // For an atomic or ATOMIC WRITE: the number of the peer's word, an atomic's operands, and the
  // expected values of the word before and after.
  uint32_t word = 0;
  uint64_t compare_add = 0, swap = 0;
  uint64_t found = 0, left = 0;
  // The region that it maps, binds or revokes (locally or by IBV_WR_SEND_WITH_INV), or that it
  // accesses instead of the peer's ordinary memory.
  std::shared_ptr<ExposedRegion> exposure;
  // If set, it accesses its own memory with this key instead of the ordinary one.
  std::shared_ptr<ExposedRegion> local_exposure;
  // Messages by which the sides wait for each other have a number; 0: none.
  int message = 0;
  int waits_for = 0;  // not posted before this message of the peer has arrived

  bool is_local() const {
    return opcode == verbs::kWrRegMr || opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV;
  }
  bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_atomic_write() const { return opcode == IBV_WR_ATOMIC_WRITE; }
  bool changes_word() const { return is_atomic() || is_atomic_write(); }
  bool is_flush() const { return opcode == verbs::kWrFlush; }
  bool is_write() const {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool takes_receive() const {
    return !is_local() && !changes_word() && !is_flush() && opcode != IBV_WR_RDMA_WRITE &&
           opcode != IBV_WR_RDMA_READ;
  }
  bool has_immediate() const {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
};

// The work requests of one side, in order, and the fast regions and windows that it needs for them.
struct RcSequence {
  std::vector<RcOperation> operations;
  std::vector<ExposedRegion::Kind> objects;
};

// Two sequences that end without deadlock when both run: `count_a` and `count_b` requests of all
// kinds on a connection, each of at most `max_length` bytes, and some more that expose memory.
struct RcSequences {
  RcSequence a, b;
};
RcSequences DrawRcSequences(Random& random, int count_a, int count_b, uint32_t max_length);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_OPERATION_H_
