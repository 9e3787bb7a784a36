// One of the two ends of a random RC program.
#ifndef POLLUX_TESTS_SIM_RC_SIDE_H_
#define POLLUX_TESTS_SIM_RC_SIDE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stack/base/random.h"
#include "stack/engine/loop/worker.h"
#include "tests/sim/arena.h"
#include "tests/sim/log.h"
#include "tests/sim/msn_check.h"
#include "tests/sim/rc_operation.h"
#include "tests/sim/simulation.h"

namespace pollux::sim {

class RcSide : public engine::Poller {
 public:
  static constexpr uint32_t kMaxElements = 3;

  // `slot`: that of its arena.
  RcSide(const std::string& name, Node& node, unsigned slot, uint64_t seed, Log* log);
  ~RcSide() override;

  // Call these in this order, each on both sides.
  void Take(RcSequence sequence);
  void LayOut(RcSide& peer);
  void Create(uint32_t depth);
  void Connect(const ibv_qp_attr& common);

  bool Poll(uint64_t now_ns) override;
  // The whole program of this side has completed, and everything has arrived from the peer.
  bool finished() const;
  // A description of the progress, for the message if it does not finish.
  std::string Progress() const;
  // After the end: posts a WRITE with `key`, which the peer has revoked, and another one after it.
  void PostStale(uint32_t key, uint64_t address);
  // How often its send queue was drained.
  uint64_t drained() const { return drained_; }
  bool stale_finished() const { return stale_completions_ == 2; }
  // Returns a key that is no longer valid.
  uint32_t MakeStaleKey();
  uint64_t target_address() { return Address(target_start_); }
  // Checks memory and destroys all objects.
  void Finish();

  // Sets the first PSN that it sends, and the initial MSN for the peer's messages.
  void SetFirst(uint32_t psn, uint32_t msn) {
    first_psn_ = psn;
    first_msn_ = msn;
  }
  bool Has(Qpn qpn) const { return qpn_ == qpn; }
  // Checks a packet that the peer has sent to this side.
  void CheckResponse(const wire::RocePacket& packet);

 private:
  // A fast region or a window.
  struct Object {
    ExposedRegion::Kind kind;
    uint32_t key = 0;  // the latest one
    ibv_mw* window = nullptr;
  };

  uint64_t Address(size_t offset) { return reinterpret_cast<uint64_t>(arena_->at(offset)); }
  void Violate(const std::string& what);
  void Reserve(size_t* end, size_t length, size_t* offset);
  void LayOutExposures(size_t* end);
  void Register();
  void MakeObjects();
  void MapInvalidated();
  std::vector<ibv_sge> Split(size_t offset, uint32_t length, uint32_t key);
  uint32_t NextVariant(const Object& object);
  bool MayPost();
  bool PostSends();
  int PostTransfer(const RcOperation& operation, int flags);
  int PostFlush(const RcOperation& operation, int flags);
  int PostLocal(RcOperation& operation, int flags);
  int PostBind(ExposedRegion& exposure, const Object& object, bool unbind, ibv_send_wr* wr);
  bool PostReceives();
  // Lets the send queue drain at times (IBV_QPS_SQD). Returns whether the state has changed.
  bool Drain();
  void OnCompletion(const ibv_wc& wc, uint64_t now_ns);
  void OnSent(const RcOperation& operation);
  void OnLocal(const RcOperation& operation);
  void OnReceived(const ibv_wc& wc);
  void CheckInvalidated(const RcOperation& operation, const ibv_wc& wc);
  bool KeyWorks(uint32_t key) const;

  std::string name_;
  Node& node_;
  unsigned slot_;
  Random random_;
  Log* log_;
  RcSide* peer_ = nullptr;

  std::vector<RcOperation> operations_;
  // the peer's operations that use a receive here, in order
  std::vector<const RcOperation*> receives_;
  std::set<int> messages_received_;  // numbers of the received messages that have one
  size_t posted_ = 0, completed_ = 0;
  size_t receives_posted_ = 0, received_ = 0;
  uint32_t depth_ = 0;
  uint32_t first_psn_ = 0;
  uint32_t first_msn_ = 0;
  Qpn qpn_;
  std::optional<MsnCheck> msn_check_;  // for the peer's responses
  bool stale_phase_ = false;
  int stale_completions_ = 0;
  uint64_t drained_ = 0;

  std::unique_ptr<Arena> arena_;
  size_t arena_bytes_ = 0;
  size_t target_start_ = 0, target_end_ = 0;    // for the peer's WRITEs
  size_t exposed_start_ = 0, exposed_end_ = 0;  // exposed to the peer temporarily
  size_t source_start_ = 0, source_end_ = 0;    // for the peer's READs
  size_t words_start_ = 0;                      // for the peer's atomics and ATOMIC WRITEs
  memory::MemoryRegion local_, target_, exposed_, source_, words_;
  std::vector<ExposedRegion::Kind> object_kinds_;
  std::vector<Object> objects_;
  std::vector<uint32_t> invalidated_;  // keys of this side that the peer invalidates
  std::shared_ptr<ExposedRegion> last_revoked_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_RC_SIDE_H_
