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
inline constexpr uint32_t kRcWords = 3;    // of each side, for atomics

// Memory that a side makes known under a key of its own by a work request, and takes back: for its
// own requests, or for its peer's between two messages that say so.
struct ExposedRegion {
  enum class Kind : uint8_t { kFastRegion, kWindowType1, kWindowType2 };
  Kind kind;
  size_t object;      // of its owner: which fast region or window; used again by later exposures
  size_t offset = 0;  // in its owner's arena
  uint32_t length = 0;
  uint32_t key = 0;    // once it is posted
  bool known = false;  // mapped or bound
};

// One work request of the program.
struct RcOperation {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  double when = 0;  // its place in the program of both sides
  uint32_t length = 0;
  uint32_t immediate = 0;
  bool signaled = true;
  size_t local = 0;           // offset in the poster's arena
  size_t remote = 0;          // in the peer's: WRITE target, READ source
  size_t receive = 0;         // in the peer's: the buffer of the receive that it takes
  uint32_t receive_size = 0;  // bytes of that buffer
  int flags = 0;              // ibv_send_flags beside IBV_SEND_SIGNALED
  uint32_t invalidate = 0;    // the peer's key to invalidate, when it is not an exposure's
  // Of an atomic: which of the peer's words, its operands, what it must find and leave.
  uint32_t word = 0;
  uint64_t compare_add = 0, swap = 0;
  uint64_t found = 0, left = 0;
  // What it maps, binds, takes back (here or by IBV_WR_SEND_WITH_INV), or names instead of the
  // peer's memory.
  std::shared_ptr<ExposedRegion> exposure;
  // Names its own memory by this instead of the ordinary key.
  std::shared_ptr<ExposedRegion> local_exposure;
  // Messages by which the sides wait for each other have a number; 0: none.
  int message = 0;
  int waits_for = 0;  // not posted before this message of the peer has come

  bool is_local() const {
    return opcode == verbs::kWrRegMr || opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV;
  }
  bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  bool is_write() const {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool takes_receive() const {
    return !is_local() && !is_atomic() && opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
  }
  bool has_immediate() const {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
};

// What one side posts, in order, and the fast regions and windows that it needs for that.
struct RcSequence {
  std::vector<RcOperation> operations;
  std::vector<ExposedRegion::Kind> objects;
};

// Two sequences that come to their end when both are run: `count_a` and `count_b` requests of all
// kinds over a connection, each of at most `max_length` bytes, and some that expose memory.
struct RcSequences {
  RcSequence a, b;
};
RcSequences DrawRcSequences(Random& random, int count_a, int count_b, uint32_t max_length);

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_OPERATION_H_
