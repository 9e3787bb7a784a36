// The one port of this process, its worker and connection manager, and the threads that drive them.
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

// Opened by the first call that lists devices. It exists until the process ends, because programs
// do not destroy all their objects. A forked child has no runtime: it lacks the threads, and it
// shares the port's rings and pools with its parent, so using them would corrupt them. The child
// may examine inherited objects and destroy them, which frees only its own copies; all other calls
// are refused before they reach the worker or the manager.
class Runtime {
 public:
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  // Opens the port that the environment specifies. Errors as engine::Device::Open(). The first one
  // is also written to standard error, because callers of verbs get only error numbers.
  static absl::StatusOr<Runtime*> Get();

  engine::ApplicationActivity& activity() { return activity_; }
  // Only during a ScopedWorkerOwnership.
  engine::Worker& worker() { return device_->worker(); }
  cm::Manager& manager() { return *manager_; }
  engine::Device& device() { return *device_; }
  // The program's identifiers of rdma_cm. Their peers are disconnected when the process exits.
  std::set<CmIdBase*>& identifiers() { return identifiers_; }
  // A placeholder for the native identifier of identifiers that have ended; it is never connected.
  cm::Id* ended() { return ended_; }
  // The scope ID of link-local addresses; 0 if they do not belong to the kernel's interface of the
  // port.
  uint32_t scope() const { return scope_; }
  // The program's protection domains by handle.
  std::map<uint32_t, memory::ProtectionDomain*>& domains() { return domains_; }
  // The program's registered memory by key.
  std::map<uint32_t, absl::Span<const uint8_t>>& registered() { return registered_; }
  DeferredAhDestroy& deferred_ah_destroy() { return deferred_ah_destroy_; }
  PortLink& port_link() { return *port_link_; }
  // Whether this process was forked from the one that has the port. The caller must then create
  // nothing, start nothing and wait for nothing. Writes a message, once, and sets errno to ENODEV.
  static bool IsCopy() {
    if (!ForkedChild::Is()) [[likely]]
      return false;
    TellOfCopy();
    return true;
  }
  // Sends the posts that HeldPosts holds; returns when they are sent, at the latest after
  // HeldPosts::kLongestSendMs. Called before this process calls exec(3) or ends without exit(3),
  // also in signal handlers. The progress thread sends them, because the calling thread may be in
  // any function.
  static void SendHeldPosts();
  // Ends all connections if this process, not one that it was forked from, has opened the port.
  // Called when the process exits.
  static void EndOfThisProcess();
  // Registers the fork handlers. Called once, when the library is loaded.
  static void HandleForks();
  // A file of this process of which each context has a descriptor, to recognise contexts of this
  // process.
  int command_fd() const { return command_fd_; }

 private:
  friend class ScopedWorkerOwnership;
  Runtime() = default;
  static absl::StatusOr<std::unique_ptr<Runtime>> Open();
  // One turn of the loop, on the owner's thread. Returns whether it did anything.
  bool Poll(uint64_t now_ns, engine::Worker::AckAction acks) {
    frame_signal_.Raise();
    const bool busy = device_->worker().Poll(now_ns, acks);
    held_posts_.Sent();
    return busy;
  }
  // As Poll(), but acknowledgements may wait for the program's next post.
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
  // Starts the supervisor, which disconnects peers if this process is killed.
  absl::Status StartSupervisor(const Settings& settings);
  absl::Status StartProgressThread(const Settings& settings);
  // Whether this thread is in a call of the runtime and `address` is in registered memory.
  static bool Touches(const void* address);
  // Ends all connections. The worker remains, because other libraries may destroy objects later.
  void End();
  // Acquires the ownership. Returns false if a call that will never complete holds it.
  bool AcquireAtLast();
  static bool InCall();
  // Waits for the peers' replies to DREQs.
  void AwaitAnswers(ScopedWorkerOwnership& owned);
  static void TellOfCopy();
  static void EndOnce();
  // Fork handlers. They make sure that no thread is in a call during the fork. An exception is a
  // call that a signal handler has interrupted, if the handler forks or does not return. They
  // allocate no memory: some allocators lock themselves before BeforeFork() runs.
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  // In a forked child: puts /dev/null in place of the port's descriptors.
  static void LetGoInChild();

  const pid_t process_ = getpid();
  engine::Clock clock_;
  engine::Ownership ownership_;
  engine::ApplicationActivity activity_;
  HeldPosts held_posts_;
  transport::AckPolicy ack_policy_;
  std::unique_ptr<PortLink> port_link_;
  std::unique_ptr<MemifSockets> memif_sockets_;  // null: the port is not a memif
  std::unique_ptr<engine::Device> device_;
  std::optional<engine::DeviceTelemetry> telemetry_;
  FrameSignal frame_signal_;
  std::unique_ptr<DreqRecords> dreq_records_;  // null: there is no supervisor
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

// Makes the calling thread the worker's owner during the object's lifetime. A thread must not have
// two at a time.
class ScopedWorkerOwnership {
 public:
  explicit ScopedWorkerOwnership(Runtime* runtime) : runtime_(runtime) {
    runtime_->ownership_.Acquire();
  }
  // For a thread that is the owner already.
  ScopedWorkerOwnership(Runtime* runtime, std::adopt_lock_t /*owned*/) : runtime_(runtime) {}
  ~ScopedWorkerOwnership() { runtime_->ownership_.Release(); }
  ScopedWorkerOwnership(const ScopedWorkerOwnership&) = delete;
  ScopedWorkerOwnership& operator=(const ScopedWorkerOwnership&) = delete;

  // Both first advance the worker's clock, because the last poll may be long ago, and time-outs
  // that the call starts must begin now.
  engine::Worker& worker() {
    runtime_->worker().AdvanceClock(runtime_->clock_.NowNs());
    return runtime_->worker();
  }
  cm::Manager& manager() {
    runtime_->worker().AdvanceClock(runtime_->clock_.NowNs());
    return runtime_->manager();
  }
  std::set<CmIdBase*>& identifiers() { return runtime_->identifiers(); }
  // False once the identifier has ended, because another thread destroys it or the process exits.
  bool Has(CmIdBase* id) { return identifiers().contains(id); }
  std::map<uint32_t, memory::ProtectionDomain*>& domains() { return runtime_->domains(); }
  std::map<uint32_t, absl::Span<const uint8_t>>& registered() { return runtime_->registered(); }
  DeferredAhDestroy& deferred_ah_destroy() { return runtime_->deferred_ah_destroy(); }
  PortLink& port_link() { return runtime_->port_link(); }
  ip::Interface& interface() { return runtime_->worker().interface(); }
  engine::ApplicationActivity& activity() { return runtime_->activity(); }

  // One turn of the loop, on this thread: sends posted requests and handles received packets.
  void Poll() {
    if (ForkedChild::Is()) [[unlikely]]
      return;
    const uint64_t now_ns = runtime_->clock_.NowNs();
    After(runtime_->PollAndSend(now_ns), now_ns);
  }
  // As Poll(), for a call that looks for completions, after which the program may post replies.
  void PollForCompletions() {
    if (ForkedChild::Is()) [[unlikely]]
      return;
    const uint64_t now_ns = runtime_->clock_.NowNs();
    After(runtime_->PollBeforePost(now_ns), now_ns);
  }
  // After a post: HeldPosts decides whether it is sent now.
  void PollAfterPost() {
    const uint32_t posts = runtime_->held_posts_.since_poll();
    if (HeldPosts::LeavesAtOnce(posts)) {
      runtime_->ack_policy_.Posted();
      Poll();
    }
    runtime_->held_posts_.Posted(posts, runtime_->activity_);
  }
  // Called in a call that has found completions: sends the held posts if too many wait.
  void SendWaiting() {
    if (runtime_->held_posts_.TooManyWaiting()) Poll();
  }

 private:
  void After(bool busy, uint64_t now_ns) {
    // A turn with work may take longer than the time after which the program counts as absent.
    runtime_->activity_.Polled(busy ? runtime_->clock_.NowNs() : now_ns);
  }

  engine::ScopedCancellationDisable no_cancellation_;
  Runtime* runtime_;
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RUNTIME_RUNTIME_H_
