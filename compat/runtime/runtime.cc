#include "compat/runtime/runtime.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compat/process/disconnect_linger.h"
#include "compat/process/fatal_signals.h"
#include "compat/process/fork_gate.h"
#include "compat/process/forked_child.h"
#include "compat/process/log_once.h"
#include "compat/process/oom_reserve.h"
#include "compat/process/own_thread.h"
#include "compat/process/program_end.h"
#include "compat/process/scoped_signal_block.h"
#include "compat/process/stall_tolerant_stopwatch.h"
#include "compat/process/supervisor.h"
#include "compat/process/termination_signals.h"
#include "compat/runtime/cm_id_base.h"
#include "stack/engine/polling/progress_policy.h"
#include "stack/engine/polling/spin_then_sleep_backoff.h"
#include "stack/engine/telemetry_socket.h"
#include "stack/io/port/devargs.h"
#include "stack/wire/roce_packet.h"

namespace pollux::compat {
namespace {

// EAL has threads of its own.
absl::Status StartEal(const engine::EalOptions& options) {
  const ScopedSignalBlock signals_blocked;
  return engine::InitEal(options);
}

// Turns of the loop in which what the end of connections sends leaves the port.
constexpr int kLastTurns = 16;
constexpr int kLastAnswers = 2;  // of each, besides the one in its time

// More than any call takes, on a busy machine too.
constexpr uint64_t kLongestCallNs = 2'000'000'000;

// Programs begin another listener at the port of the one that they have ended, and their peers do
// not wait: below the time that CM gives this side to answer.
constexpr uint64_t kRelistenNs = 2'000'000'000;

// That programs have not been told of, of all listeners: four times as many as Linux keeps. A peer
// asks again after 4.8 s only.
constexpr uint32_t kMaxUnheardRequests = 4096;
// Half-open connections have queue pairs, even after their end until the program is told, which
// comes after all requests before it: half of the queue pairs remain for others.
constexpr uint32_t kQueuePairsPerRequest = 4;

// Of the heap; what DPDK maps comes beside it.
constexpr size_t kBytesOfRuntime = 16 << 20;

std::mutex runtime_mutex;  // of who opens it
std::atomic<Runtime*> runtime{nullptr};

// While a thread forks: whether it holds the runtime for that.
thread_local bool held_for_fork = false;

absl::Status OfAnotherProcess() {
  absl::Status status = absl::FailedPreconditionError(
      "this process was forked from one that has the port; open the device after the fork");
  static LogOnce log_once;
  log_once(status);
  return status;
}

// A runtime that this process has, or that it has inherited.
absl::StatusOr<Runtime*> OfThisProcess(Runtime* there, pid_t its_process) {
  if (its_process == getpid()) return there;
  return OfAnotherProcess();
}

// Addresses of a tagged network, or of a kernel path, are another interface's than the port's.
uint32_t ScopeOf(const engine::DeviceOptions& options, const io::Port& port) {
  const bool tagged = std::ranges::any_of(
      options.addresses, [](const auto& address) { return address.vlan != kNoVlan; });
  return options.netdev.empty() || tagged ? 0 : port.interface_index();
}

// Whether another process can send on it afterwards. A TAP and a memif end with the process, and
// with a PCI device DPDK's hold on it.
bool PortOutlivesProcess(const engine::DeviceOptions& options) {
  if (!options.netdev.empty()) return true;
  const io::Driver driver = io::DriverOf(options.port);
  return driver == io::Driver::kAfPacket || driver == io::Driver::kAfXdp;
}

void Nap() {
  const timespec nap{0, static_cast<int64_t>(engine::ProgressPolicy::kNapNs)};
  nanosleep(&nap, nullptr);
}

}  // namespace

absl::StatusOr<Runtime*> Runtime::Get() {
  if (Runtime* const there = runtime; there != nullptr)
    return OfThisProcess(there, there->process_);
  const std::lock_guard lock(runtime_mutex);
  if (Runtime* const there = runtime; there != nullptr)
    return OfThisProcess(there, there->process_);
  KeepOomReserve(&InCall);
  const MemoryFor memory(kBytesOfRuntime);
  const NewDescriptors descriptors;
  absl::StatusOr<std::unique_ptr<Runtime>> opened =
      absl::ResourceExhaustedError("no memory to open the port");
  if (memory) opened = Open();
  descriptors.CloseOnExec();
  if (opened.ok()) {
    std::vector<HeldDescriptor>& held = (*opened)->descriptors_of_port_;
    held = descriptors.OfPort(wire::kRocePort);
    if ((*opened)->supervised_) held.push_back(*(*opened)->supervised_);
  }
  if (!opened.ok()) {
    static LogOnce log_once;
    log_once(opened.status());
    return opened.status();
  }
  SendBeforeProgramEnds(&SendHeldPosts);
  if (!InstallFatalSignalHandlers(&Touches, &SendHeldPosts)) {
    std::fprintf(
        stderr,
        "pollux: cannot handle SIGSEGV, SIGBUS, SIGABRT, SIGFPE or SIGILL (%s); do not unmap "
        "registered memory\n",
        std::strerror(errno));
  }
  // Registered later than the other handlers, because it allocates memory: in the child, handlers
  // run in the order of their registration, so this one runs after those of allocators.
  pthread_atfork(nullptr, nullptr, LetGoInChild);
  // From here on no call takes the lock: what forks while another thread has it leaves a child in
  // which nobody gives it back.
  runtime = opened->release();
  LeaveBeforeEndingSignals(
      [] {
        EndOnce();
        engine::RemoveTelemetrySocket();
      },
      InCall);
  return runtime;
}

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Open() {
  const char* text = std::getenv(kSettingsVariable);
  absl::StatusOr<Settings> settings = Settings::Parse(text == nullptr ? "" : text);
  if (!settings.ok()) return settings.status();
  settings->eal.ports = {settings->device.port};
  if (absl::Status status = StartEal(settings->eal); !status.ok()) return status;
  if (settings->eal.telemetry) {
    if (const absl::Status status = engine::TelemetryStatus(); !status.ok()) {
      static LogOnce log_once;
      log_once(absl::Status(status.code(),
                            absl::StrCat("no telemetry, `pollux stat` will not find this process: ",
                                         status.message())));
    }
  }
  std::unique_ptr<Runtime> opened(new Runtime());
  opened->command_fd_ = memfd_create("pollux", MFD_CLOEXEC);
  if (opened->command_fd_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a file descriptor for the device: ", std::strerror(errno)));
  }
  if (!settings->capture.empty()) {
    absl::StatusOr<std::unique_ptr<io::CaptureFile>> capture =
        io::CaptureFile::Open(settings->capture, &engine::DeviceEpochNs, StartWithoutSignals);
    if (!capture.ok()) return capture.status();
    if ((*capture)->path() != settings->capture) {
      std::fprintf(stderr, "pollux: another process writes %s; this one captures into %s\n",
                   settings->capture.c_str(), (*capture)->path().c_str());
    }
    opened->capture_ = settings->device.capture = *std::move(capture);
  }
  settings->device.start_thread = StartWithoutSignals;
  absl::StatusOr<std::unique_ptr<engine::Device>> device = engine::Device::Open(settings->device);
  if (!device.ok()) return device.status();
  opened->device_ = *std::move(device);
  opened->telemetry_.emplace(*opened->device_);
  opened->scope_ = ScopeOf(settings->device, opened->device_->port());
  opened->port_link_ =
      std::make_unique<PortLink>(io::DriverOf(settings->device.port) == io::Driver::kMemif);
  opened->device_->worker().AddPortObserver(opened->port_link_.get());
  opened->memif_sockets_ = MemifSockets::Of(settings->device.port);
  if (opened->memif_sockets_ != nullptr) {
    opened->device_->worker().AddPortObserver(opened->memif_sockets_.get());
  }
  opened->frame_signal_ = FrameSignal::TakeOver();
  const uint32_t max_requests =
      std::min(kMaxUnheardRequests, settings->device.queue_pairs / kQueuePairsPerRequest);
  absl::StatusOr<std::unique_ptr<cm::Manager>> manager =
      cm::Manager::Create(&opened->device_->worker(), {.max_pending_requests = max_requests,
                                                       .max_half_open = max_requests,
                                                       .relisten_ns = kRelistenNs});
  if (!manager.ok()) return manager.status();
  opened->manager_ = *std::move(manager);
  absl::StatusOr<cm::Id*> ended =
      opened->manager_->CreateId(RDMA_PS_TCP, [](const cm::Event& /*event*/) {});
  if (!ended.ok()) return ended.status();
  opened->ended_ = *ended;
  if (const absl::Status status = opened->StartSupervisor(*settings); !status.ok()) {
    static LogOnce log_once;
    log_once(status);
  }
  if (absl::Status status = opened->StartProgressThread(*settings); !status.ok()) return status;
  return opened;
}

absl::Status Runtime::StartSupervisor(const Settings& settings) {
  if (settings.supervisor.empty() || !PortOutlivesProcess(settings.device)) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<DreqRecords>> records = DreqRecords::Create();
  if (!records.ok()) return records.status();
  const absl::StatusOr<HeldDescriptor> supervised = compat::StartSupervisor(
      settings.supervisor, (*records)->fd(), device_->port().interface_index());
  if (!supervised.ok()) return supervised.status();
  dreq_records_ = *std::move(records);
  supervised_ = *supervised;
  manager_->SetDreqKeeper(dreq_records_.get());
  return absl::OkStatus();
}

absl::Status Runtime::StartProgressThread(const Settings& settings) {
  engine::ProgressThread::Options options;
  options.policy = {.idle = settings.idle,
                    .idle_turns = settings.yield_after,
                    .application = engine::Application::kUnmodified};
  options.cpu = settings.core;
  options.next_deadline_ns = [this] { return device_->worker().NextDeadline(); };
  options.ownership = &ownership_;
  options.activity = &activity_;
  options.start = StartWithoutSignals;
  auto started = engine::ProgressThread::Start(
      options, [this](uint64_t now_ns, engine::Worker::AckAction acks) {
        const uint64_t before = device_->worker().counters().rcvd_pkts;
        const bool may_hold = acks == transport::AckPolicy::kHold;
        const bool work = may_hold ? PollBeforePost(now_ns) : PollAndSend(now_ns);
        return engine::ProgressThread::Found{work, device_->worker().counters().rcvd_pkts - before};
      });
  if (!started.ok()) return started.status();
  progress_thread_ = *std::move(started);
  return absl::OkStatus();
}

Runtime::~Runtime() {
  if (command_fd_ >= 0) close(command_fd_);
}

// In a signal handler. The map is whole when its owner touches registered memory.
bool Runtime::Touches(const void* address) {
  if (!InCall()) return false;
  const auto* const byte = static_cast<const uint8_t*>(address);
  for (const auto& [key, stretch] : runtime.load()->registered_) {
    if (byte >= stretch.data() && byte < stretch.data() + stretch.size()) return true;
  }
  return false;
}

void Runtime::End() {
  // By a signal handler that has interrupted a call: nobody completes that, and no other begins.
  if (ownership_.HeldByThisThread()) return;
  progress_thread_->Stop();
  if (!AcquireAtLast()) return;
  ScopedWorkerOwnership owned(this, std::adopt_lock);
  // A call from now on, by another thread or by a library that finishes later, finds an identifier
  // that is not connected.
  for (CmIdBase* id : std::exchange(identifiers_, {})) {
    manager_->DestroyId(std::exchange(id->native, ended_));
  }
  for (int i = 0; i < kLastTurns; ++i) owned.Poll();
  AwaitAnswers(owned);
  // Nobody is there to answer a DREQ that a peer repeats since the answer was lost.
  for (int i = 0; i < kLastAnswers; ++i) {
    manager_->RepeatAnswers();
    for (int j = 0; j < kLastTurns; ++j) owned.Poll();
  }
  if (memif_sockets_ != nullptr) memif_sockets_->RemoveFile();
  if (capture_ == nullptr) return;
  if (const absl::Status status = capture_->Close(); !status.ok()) {
    std::fprintf(stderr, "pollux: %s\n", std::string(status.message()).c_str());
  }
}

// A signal may have interrupted a call for good: on another thread, or on this one in the moment in
// which it has taken the ownership and does not say so yet.
bool Runtime::AcquireAtLast() {
  StallTolerantStopwatch stopwatch(clock_.NowNs());
  engine::SpinThenSleepBackoff backoff;
  while (!ownership_.TryAcquire()) {
    if (stopwatch.Ns(clock_.NowNs()) >= kLongestCallNs) return false;
    backoff.Wait();
  }
  return true;
}

void Runtime::AwaitAnswers(ScopedWorkerOwnership& owned) {
  DisconnectLinger linger(clock_.NowNs());
  while (manager_->unanswered_disconnects() > 0) {
    const DisconnectLinger::Step step = linger.Next(clock_.NowNs());
    if (step == DisconnectLinger::Step::kGiveUp) {
      // None repeats these, but there is one for each peer.
      while (manager_->SendWaitingDisconnects()) owned.Poll();
      for (int i = 0; i < kLastTurns; ++i) owned.Poll();
      return;
    }
    if (step == DisconnectLinger::Step::kRepeat) manager_->RepeatDisconnects();
    owned.Poll();
    Nap();
  }
}

// As a call that was interrupted holds the ownership until it ends, a handler that interrupts one
// waits for nothing. In a child the runtime is its parent's, even where they share it (vfork).
void Runtime::SendHeldPosts() {
  Runtime* const there = runtime;
  if (there == nullptr || there->process_ != getpid() || InCall()) return;
  // None of the functions that this is called before is a cancellation point.
  const engine::ScopedCancellationDisable no_cancellation;
  there->held_posts_.AwaitSent(there->activity_);
}

// Of this thread. In a signal handler.
bool Runtime::InCall() {
  Runtime* const there = runtime;
  return there != nullptr && there->ownership_.HeldByThisThread();
}

void Runtime::BeforeFork() {
  Runtime* const there = runtime;
  held_for_fork = there != nullptr && !InCall() && there->AcquireAtLast();
  ForkGate::Close(kLongestCallNs);
}

void Runtime::AfterForkInParent() {
  ForkGate::OpenInParent();
  if (held_for_fork) runtime.load()->ownership_.Release();
}

void Runtime::AfterForkInChild() {
  ForkGate::OpenInChild();
  Runtime* const there = runtime;
  if (there == nullptr) return;
  ForkedChild::Become();
  if (InCall()) {
    if (held_for_fork) there->ownership_.Release();
    return;
  }
  // The thread that holds it is not here, nor is any that waits.
  static_assert(std::is_trivially_destructible_v<engine::Ownership>);
  std::construct_at(&there->ownership_);
}

// With the kernel's verbs, too, children have no descriptor of the port.
void Runtime::LetGoInChild() {
  Runtime* const there = runtime;
  if (there == nullptr) return;
  LetGo(there->descriptors_of_port_);
  if (there->device_->claims() != nullptr) LetGo(SocketsUnder(kernel::NameClaim::kPrefix));
  if (there->memif_sockets_ != nullptr) there->memif_sockets_->LetGo();
}

void Runtime::HandleForks() { pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); }

void Runtime::TellOfCopy() {
  OfAnotherProcess().IgnoreError();
  errno = ENODEV;
}

void Runtime::EndOfThisProcess() {
  Runtime* const there = runtime;
  if (there != nullptr && there->process_ == getpid()) EndOnce();
}

// By exit(), and by a signal that ends the process meanwhile: the later one waits.
void Runtime::EndOnce() {
  static std::once_flag once;
  std::call_once(once, [] { runtime.load()->End(); });
}

namespace {

// The handlers that run before a fork run in the reverse order of their registration. Libraries and
// programs that use this one register later: they may call verbs in their handlers, and lock there
// what other threads hold during calls. Allocators must register earlier, because calls allocate
// memory. Jemalloc and Scudo do so at the first allocation, which the C++ library has made by now.
__attribute__((constructor)) void HandleForksFromNowOn() { Runtime::HandleForks(); }

// Exit handlers and static destructors of the program still use its connections, so this runs after
// all of them, and after the destructor functions of the libraries that depend on this one. A
// handler that std::atexit() registers when the device is opened would run before those that were
// registered earlier. End() needs no object that static destructors destroy.
__attribute__((destructor)) void EndAtExit() { Runtime::EndOfThisProcess(); }

}  // namespace

}  // namespace pollux::compat
