#include "tests/sim/rc_operation.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pollux::sim {
namespace {

// Around the sizes where the number of packets changes, or of any size, small ones more often.
uint32_t DrawLength(Random& random, uint32_t max_length) {
  const uint64_t mtus = 256ull << random.Below(5);
  const uint64_t length = random.Chance(0.3) ? mtus * random.Below(4) + random.Below(3)
                                             : random.Below((max_length >> random.Below(8)) + 1);
  return static_cast<uint32_t>(std::min<uint64_t>(length, max_length));
}

RcOperation DrawOperation(Random& random, ibv_wr_opcode opcode, uint32_t max_length, double when) {
  RcOperation operation;
  operation.opcode = opcode;
  operation.when = when;
  if (operation.is_local()) {
    operation.signaled = random.Chance(0.5);
    return operation;
  }
  operation.length = operation.changes_word() ? 8
                     : operation.is_flush()   ? 0
                                              : DrawLength(random, max_length);
  if (random.Chance(0.2)) operation.flags |= IBV_SEND_FENCE;
  if (random.Chance(0.2)) operation.flags |= IBV_SEND_SOLICITED;
  const bool may_be_inline = operation.length <= kRcInline && opcode != IBV_WR_RDMA_READ &&
                             !operation.changes_word() && !operation.is_flush() &&
                             random.Chance(0.3);
  if (may_be_inline || operation.is_atomic_write()) operation.flags |= IBV_SEND_INLINE;
  operation.immediate = random.Next32();
  operation.signaled = random.Chance(0.7);
  operation.receive_size = opcode == IBV_WR_RDMA_WRITE_WITH_IMM
                               ? static_cast<uint32_t>(random.Below(8))
                               : operation.length + static_cast<uint32_t>(random.Below(16));
  return operation;
}

template <size_t N>
ibv_wr_opcode OneOf(Random& random, const ibv_wr_opcode (&opcodes)[N]) {
  return opcodes[random.Below(N)];
}

// Requests that change the words are executed in the order posted, so the value that each one finds
// is known.
void DrawWord(Random& random, RcOperation& operation, uint64_t (&words)[kRcWords]) {
  operation.word = static_cast<uint32_t>(random.Below(kRcWords));
  uint64_t& word = words[operation.word];
  operation.found = word;
  if (operation.is_atomic_write()) {
    word = random.Next64();
  } else if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    operation.compare_add = random.Next64();
    word += operation.compare_add;
  } else {
    operation.compare_add = random.Chance(0.7) ? word : random.Next64();
    operation.swap = random.Next64();
    if (operation.compare_add == word) word = operation.swap;
  }
  operation.left = word;
}

void DrawOrdinary(Random& random, int count, uint32_t max_length, RcSequence& sequence) {
  uint64_t words[kRcWords] = {};
  for (int i = 0; i < count; ++i) {
    const ibv_wr_opcode opcode = OneOf(
        random, {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                 IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
                 IBV_WR_ATOMIC_WRITE, verbs::kWrFlush, IBV_WR_SEND_WITH_INV});
    RcOperation operation = DrawOperation(random, opcode, max_length, i);
    if (operation.changes_word()) DrawWord(random, operation, words);
    sequence.operations.push_back(std::move(operation));
  }
}

ibv_wr_opcode MapsIt(const ExposedRegion& exposure) {
  return exposure.kind == ExposedRegion::Kind::kFastRegion ? verbs::kWrRegMr : IBV_WR_BIND_MW;
}
// A window of type 1 is not invalidated: it is bound to nothing.
ibv_wr_opcode TakesItBack(const ExposedRegion& exposure) {
  return exposure.kind == ExposedRegion::Kind::kWindowType1 ? IBV_WR_BIND_MW : IBV_WR_LOCAL_INV;
}

class ExposedRegions {
 public:
  ExposedRegions(Random& random, uint32_t max_length) : random_(random), max_length_(max_length) {}

  // One request of `own` names its memory by a fast region that lives as long as it.
  void Privately(RcSequence& own, double from, double to) {
    own.objects.push_back(ExposedRegion::Kind::kFastRegion);
    for (uint64_t rounds = 1 + random_.Below(2); rounds > 0; --rounds) {
      auto exposure = std::make_shared<ExposedRegion>(ExposedRegion{
          .kind = ExposedRegion::Kind::kFastRegion, .object = own.objects.size() - 1});
      Local(own, exposure, verbs::kWrRegMr, from);
      const ibv_wr_opcode opcode =
          OneOf(random_, {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ});
      RcOperation operation = DrawOperation(random_, opcode, max_length_, Later(from, to));
      operation.local_exposure = exposure;
      from = operation.when;
      own.operations.push_back(std::move(operation));
      from = Later(from, to);
      Local(own, exposure, IBV_WR_LOCAL_INV, from);
      from = Later(from, to);
    }
  }

  // `own` shows memory to `peer`, which uses it when it has been told, and says when it has done
  // so; then it is taken back, by either. Perhaps the same object serves again.
  void ToPeer(RcSequence& own, RcSequence& peer, double from, double to) {
    const auto kind = static_cast<ExposedRegion::Kind>(random_.Below(3));
    own.objects.push_back(kind);
    int released = 0;
    for (uint64_t rounds = 1 + random_.Below(2); rounds > 0; --rounds) {
      auto exposure = std::make_shared<ExposedRegion>(
          ExposedRegion{.kind = kind, .object = own.objects.size() - 1});
      Local(own, exposure, MapsIt(*exposure), from).waits_for = std::exchange(released, 0);
      const int known = Message(own, IBV_WR_SEND, from, 0).message;
      for (uint64_t uses = 1 + random_.Below(3); uses > 0; --uses) {
        from = Later(from, to);
        Use(peer, exposure, known, from);
      }
      from = Later(from, to);
      const bool by_peer = kind != ExposedRegion::Kind::kWindowType1 && random_.Chance(0.5);
      RcOperation& last = Message(peer, by_peer ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND, from, known);
      // What it reads must have come before the memory is taken back.
      last.flags |= IBV_SEND_FENCE;
      if (by_peer) last.exposure = exposure;
      released = last.message;
      from = Later(from, to);
      if (!by_peer) {
        Local(own, exposure, TakesItBack(*exposure), from).waits_for = std::exchange(released, 0);
      }
    }
  }

 private:
  double Later(double from, double to) {
    return from + (to - from) * 0.3 * static_cast<double>(random_.Below(1000)) / 1000;
  }
  RcOperation& Local(RcSequence& own, const std::shared_ptr<ExposedRegion>& exposure,
                     ibv_wr_opcode opcode, double when) {
    own.operations.push_back(DrawOperation(random_, opcode, 0, when));
    own.operations.back().exposure = exposure;
    return own.operations.back();
  }
  RcOperation& Message(RcSequence& from, ibv_wr_opcode opcode, double when, int waits_for) {
    from.operations.push_back(DrawOperation(random_, opcode, max_length_, when));
    from.operations.back().message = ++messages_;
    from.operations.back().waits_for = waits_for;
    return from.operations.back();
  }
  void Use(RcSequence& by, const std::shared_ptr<ExposedRegion>& exposure, int known, double when) {
    const ibv_wr_opcode opcode =
        OneOf(random_, {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ});
    RcOperation operation = DrawOperation(random_, opcode, max_length_, when);
    operation.exposure = exposure;
    operation.waits_for = known;
    by.operations.push_back(std::move(operation));
  }

  Random& random_;
  uint32_t max_length_;
  int messages_ = 0;
};

}  // namespace

RcSequences DrawRcSequences(Random& random, int count_a, int count_b, uint32_t max_length) {
  RcSequences both;
  DrawOrdinary(random, count_a, max_length, both.a);
  DrawOrdinary(random, count_b, max_length, both.b);
  ExposedRegions exposures(random, max_length);
  const double end = std::max(count_a, count_b);
  for (uint64_t more = random.Below(4); more > 0; --more) {
    RcSequence& own = random.Chance(0.5) ? both.a : both.b;
    RcSequence& peer = &own == &both.a ? both.b : both.a;
    const double from = static_cast<double>(random.Below(static_cast<uint64_t>(end)));
    if (random.Chance(0.3)) {
      exposures.Privately(own, from, end);
    } else {
      exposures.ToPeer(own, peer, from, end);
    }
  }
  for (RcSequence* sequence : {&both.a, &both.b}) {
    // Each waits only for what comes before it in this order: no circle of waiting comes about.
    std::stable_sort(sequence->operations.begin(), sequence->operations.end(),
                     [](const RcOperation& x, const RcOperation& y) { return x.when < y.when; });
    // Otherwise nobody would hear of the end.
    if (!sequence->operations.empty()) sequence->operations.back().signaled = true;
  }
  return both;
}

}  // namespace pollux::sim
