// The one port of this process, with its worker and its connection manager, and who drives them.
#ifndef POLLUX_COMPAT_RUNTIME_RUNTIME_H_
#define POLLUX_COMPAT_RUNTIME_RUNTIME_H_

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cm/manager.h"
#include "compat/process/descriptors.h"
#include "compat/process/dreq_records.h"
#include "compat/process/forked_child.h"
#include "compat/runtime/deferred_ah_destroy.h"
#include "compat/runtime/frame_signal.h"
#include "compat/runtime/held_posts.h"
#include "compat/runtime/memif_sockets.h"
#include "compat/runtime/port_link.h"
#include "compat/runtime/settings.h"
#include "stack/engine/device.h"
#include "stack/engine/polling/application_activity.h"
#include "stack/engine/polling/clock.h"
#include "stack/engine/polling/ownership.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/engine/polling/scoped_cancellation_disable.h"
#include "stack/engine/telemetry.h"
#include "stack/memory/protection_domain.h"
#include "stack/transport/ack_policy.h"

namespace pollux::compat {

struct CmIdBase;
class ScopedWorkerOwnership;

// Opened by the first call that asks what devices there are; there until the process ends, since
// programs leave objects behind. A process that was forked from one with a runtime has none, since
// it has none of its threads, and what the two would do to the port's rings and pools would meet
// there: what it has inherited it may look at and destroy, which ends what is its own of it, and
// whatever else it is asked for is refused before the worker or the manager hears of it.
class Runtime {
 public:
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  // Opens the port that the environment names. Errors as engine::Device::Open(); they are told to
  // standard error too, once, since the callers of verbs know numbers only.
  static absl::StatusOr<Runtime*> Get();

  engine::ApplicationActivity& activity() { return activity_; }
  // Only while a ScopedWorkerOwnership of it lives.
  engine::Worker& worker() { return device_->worker(); }
  cm::Manager& manager() { return *manager_; }
  engine::Device& device() { return *device_; }
  // The program's identifiers of rdma_cm. Their peers are told when the process exits.
  std::set<CmIdBase*>& identifiers() { return identifiers_; }
  // Stands for the native one of an identifier that has ended; nothing is asked of it.
  cm::Id* ended() { return ended_; }
  // Of link-local addresses; 0 where the port stands on no interface whose addresses they are.
  uint32_t scope() const { return scope_; }
  // The program's protection domains, by their handles.
  std::map<uint32_t, memory::ProtectionDomain*>& domains() { return domains_; }
  // The memory that the program has registered, by its keys.
  std::map<uint32_t, absl::Span<const uint8_t>>& registered() { return registered_; }
  DeferredAhDestroy& deferred_ah_destroy() { return deferred_ah_destroy_; }
  PortLink& port_link() { return *port_link_; }
  // Whether this process was forked from one that has the port: what asks makes nothing then,
  // starts nothing and waits for nothing. Says why, once, and leaves ENODEV in errno.
  static bool IsCopy() {
    if (!ForkedChild::Is()) [[likely]]
      return false;
    TellOfCopy();
    return true;
  }
  // What HeldPosts holds has left when this returns, or HeldPosts::kLongestSendMs are over: before
  // this process becomes another program or ends without exit(3), in a signal handler too. The
  // progress thread sends it, since the calling thread may be anywhere.
  static void SendHeldPosts();
  // A file that is nobody else's, of which each context has a descriptor: by one of these a context
  // is known to be of this process.
  int command_fd() const { return command_fd_; }

 private:
  friend class ScopedWorkerOwnership;
  Runtime() = default;
  static absl::StatusOr<std::unique_ptr<Runtime>> Open();
  // One turn of the loop, by the owner; whether it did anything.
  bool Poll(uint64_t now_ns, engine::Worker::AckAction acks) {
    frame_signal_.Raise();
    const bool busy = device_->worker().Poll(now_ns, acks);
    held_posts_.Sent();
    return busy;
  }
  // As Poll(); acknowledgements may wait for what the program posts next.
  bool PollBeforePost(uint64_t now_ns) {
    if (ack_policy_.Choose(now_ns) == transport::AckPolicy::kSendNow) return PollAndSend(now_ns);
    const bool busy = Poll(now_ns, transport::AckPolicy::kHold);
    const bool owes = device_->worker().OwesAcks();
    ack_policy_.Held(owes, now_ns);
    if (owes) activity_.EndLongNap();
    return busy;
  }
  bool PollAndSend(uint64_t now_ns) {
    const bool busy = Poll(now_ns, transport::AckPolicy::kSendNow);
    ack_policy_.Sent(busy);
    return busy;
  }
  // For peers to hear of this process's end if it is killed.
  absl::Status StartSupervisor(const Settings& settings);
  absl::Status StartProgressThread(const Settings& settings);
  // Whether the runtime touches registered memory on this thread, and `address` is of it.
  static bool Touches(const void* address);
  // What other libraries destroy after this still finds its worker.
  void End();
  // Takes the ownership; false when a call has it that nobody completes.
  bool AcquireAtLast();
  static bool InCall();
  // Of the peers that are told of the end of their connections.
  void AwaitAnswers(ScopedWorkerOwnership& owned);
  static void TellOfCopy();
  static void EndAtExit();
  static void EndOnce();
  // What is copied is in nobody's hands, but for a call that a signal handler has interrupted: of
  // the thread that forks, or of another one that does not complete it.
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();

  const pid_t process_ = getpid();
  engine::Clock clock_;
  engine::Ownership ownership_;
  engine::ApplicationActivity activity_;
  HeldPosts held_posts_;
  transport::AckPolicy ack_policy_;
  std::unique_ptr<PortLink> port_link_;
  std::unique_ptr<MemifSockets> memif_sockets_;  // null: the port is no memif
  std::unique_ptr<engine::Device> device_;
  std::optional<engine::DeviceTelemetry> telemetry_;
  FrameSignal frame_signal_;
  std::unique_ptr<DreqRecords> dreq_records_;  // null: nobody would send them
  std::unique_ptr<cm::Manager> manager_;
  std::set<CmIdBase*> identifiers_;
  cm::Id* ended_ = nullptr;
  uint32_t scope_ = 0;
  std::map<uint32_t, memory::ProtectionDomain*> domains_;
  std::map<uint32_t, absl::Span<const uint8_t>> registered_;
  DeferredAhDestroy deferred_ah_destroy_;
  int command_fd_ = -1;
  std::vector<HeldDescriptor> descriptors_of_port_;
  std::optional<HeldDescriptor> supervised_;
  std::shared_ptr<io::CaptureFile> capture_;
  std::unique_ptr<engine::ProgressThread> progress_thread_;
};

// The calling thread is the worker's owner as long as this lives. Not two at once in a thread.
class ScopedWorkerOwnership {
 public:
  explicit ScopedWorkerOwnership(Runtime* runtime) : runtime_(runtime) {
    runtime_->ownership_.Acquire();
  }
  // The thread is the owner already.
  ScopedWorkerOwnership(Runtime* runtime, std::adopt_lock_t /*owned*/) : runtime_(runtime) {}
  ~ScopedWorkerOwnership() { runtime_->ownership_.Release(); }
  ScopedWorkerOwnership(const ScopedWorkerOwnership&) = delete;
  ScopedWorkerOwnership& operator=(const ScopedWorkerOwnership&) = delete;

  // Both with the time of this call: the last poll may be long ago, and the time-outs that the call
  // asks for begin now.
  engine::Worker& worker() {
    runtime_->worker().AdvanceClock(runtime_->clock_.NowNs());
    return runtime_->worker();
  }
  cm::Manager& manager() {
    runtime_->worker().AdvanceClock(runtime_->clock_.NowNs());
    return runtime_->manager();
  }
  std::set<CmIdBase*>& identifiers() { return runtime_->identifiers(); }
  // False once the identifier has ended: another thread destroys it, or the process exits.
  bool Has(CmIdBase* id) { return identifiers().contains(id); }
  std::map<uint32_t, memory::ProtectionDomain*>& domains() { return runtime_->domains(); }
  std::map<uint32_t, absl::Span<const uint8_t>>& registered() { return runtime_->registered(); }
  DeferredAhDestroy& deferred_ah_destroy() { return runtime_->deferred_ah_destroy(); }
  PortLink& port_link() { return runtime_->port_link(); }
  ip::Interface& interface() { return runtime_->worker().interface(); }
  engine::ApplicationActivity& activity() { return runtime_->activity(); }

  // One turn of the loop, on this thread: what it has posted leaves, what has arrived is served.
  void Poll() {
    if (ForkedChild::Is()) [[unlikely]]
      return;
    const uint64_t now_ns = runtime_->clock_.NowNs();
    After(runtime_->PollAndSend(now_ns), now_ns);
  }
  // As Poll(), of a call that looks for completions: what they tell the program it may answer.
  void PollForCompletions() {
    if (ForkedChild::Is()) [[unlikely]]
      return;
    const uint64_t now_ns = runtime_->clock_.NowNs();
    After(runtime_->PollBeforePost(now_ns), now_ns);
  }
  // After a post: HeldPosts says whether it leaves now.
  void PollAfterPost() {
    const uint32_t posts = runtime_->held_posts_.since_poll();
    if (HeldPosts::LeavesAtOnce(posts)) {
      runtime_->ack_policy_.Posted();
      Poll();
    }
    runtime_->held_posts_.Posted(posts, runtime_->activity_);
  }
  // In a call that has found completions: sends what is held if it is too much to wait.
  void SendWaiting() {
    if (runtime_->held_posts_.TooManyWaiting()) Poll();
  }

 private:
  void After(bool busy, uint64_t now_ns) {
    // One with work may take longer than a program counts as present.
    runtime_->activity_.Polled(busy ? runtime_->clock_.NowNs() : now_ns);
  }

  engine::ScopedCancellationDisable no_cancellation_;
  Runtime* runtime_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_RUNTIME_H_
