// Completion channels and completion queues.
#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compat/loader/export.h"
#include "compat/process/forked_child.h"
#include "compat/process/log_once.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/async_events.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"
#include "stack/base/fd_waiter.h"
#include "stack/engine/polling/scoped_cancellation_disable.h"

namespace pollux::compat {
namespace {

constexpr uint64_t kWcFlags = IBV_WC_STANDARD_FLAGS;  // of ibv_create_cq_ex(3)

// The announced queue that has waited longest; null when another thread has been faster. Under the
// channel's mutex. Each count of the descriptor stands for one announcement, wherever it is.
Cq* TakeAnnounced(Channel* channel) {
  if (IsReadable(channel->fd) != 1) return nullptr;
  if (channel->taken.empty()) return channel->queues.at(channel->native->GetEvent());
  eventfd_t one;
  eventfd_read(channel->fd, &one);
  Cq* cq = channel->taken.front();
  channel->taken.pop_front();
  return cq;
}

// Takes back what is announced of `cq` and not taken yet: the others keep their order. In a copy
// nothing of it is taken any more, and the counts of the descriptor are the other process's.
void Withdraw(Channel* channel, Cq* cq) {
  const std::lock_guard lock(channel->mutex);
  if (ForkedChild::Is()) {
    std::erase(channel->taken, cq);
    return;
  }
  std::deque<Cq*> kept;
  while (Cq* announced = TakeAnnounced(channel)) {
    if (announced != cq) kept.push_back(announced);
  }
  channel->taken = std::move(kept);
  if (channel->taken.empty()) return;
  eventfd_write(channel->fd, channel->taken.size());
  channel->native->fd_waiter().Ring();
}

// Until something is announced, known to the progress thread; the thread may be cancelled.
int Sleep(Channel* channel, engine::ApplicationActivity& activity) {
  int error;
  activity.SleepBegins();
  pthread_cleanup_push([](void* of) { static_cast<engine::ApplicationActivity*>(of)->SleepEnds(); },
                       &activity);
  error = channel->native->fd_waiter().AwaitReadable(channel->fd);
  pthread_cleanup_pop(1);
  return error;
}

absl::Status Attach(ScopedWorkerOwnership& owned, Cq* cq, int entries) {
  auto native = owned.worker().CreateCq(static_cast<uint32_t>(entries), HandlerFor(cq));
  if (!native.ok()) return native.status();
  cq->native = *native;
  if (cq->its_channel == nullptr) return absl::OkStatus();
  absl::Status status = cq->native->SetChannel(cq->its_channel->native.get());
  if (!status.ok()) {
    owned.worker().DestroyCq(cq->native).IgnoreError();  // nothing uses it
    return status;
  }
  const std::lock_guard lock(cq->its_channel->mutex);
  cq->its_channel->queues[cq->native] = cq;
  ++cq->its_channel->refcnt;
  return absl::OkStatus();
}

absl::Status Detach(ScopedWorkerOwnership& owned, Cq* cq) {
  if (cq->its_channel != nullptr) Withdraw(cq->its_channel, cq);
  // Its channel may hold an announcement of it for ever in a copy, in which nothing is driven.
  if (!ForkedChild::Is()) {
    const absl::Status status = owned.worker().DestroyCq(cq->native);
    if (!status.ok()) return status;
    // The worker frees it at the end of a turn.
    owned.Poll();
  }
  if (cq->its_channel == nullptr) return absl::OkStatus();
  const std::lock_guard lock(cq->its_channel->mutex);
  cq->its_channel->queues.erase(cq->native);
  --cq->its_channel->refcnt;
  return absl::OkStatus();
}

size_t BytesOf(int entries) {
  return std::bit_ceil(std::min(static_cast<uint32_t>(entries), verbs::kMaxCqEntries)) *
         sizeof(ibv_wc);
}

// Follows the error for a completion queue that is too long.
constexpr char kAdvice[] =
    "libfabric asks for fewer entries if FI_UNIVERSE_SIZE is smaller (256 by default)";

Cq* Create(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector) {
  if (entries <= 0 || vector < 0 || vector >= context->num_comp_vectors) {
    Failed(EINVAL);
    return nullptr;
  }
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory(BytesOf(entries));
  if (!memory) {
    static LogOnce log_once;
    if (log_once.IsFirst()) {
      std::fprintf(stderr, "pollux: completion queue of %d entries: no memory for %zu bytes; %s\n",
                   entries, BytesOf(entries), kAdvice);
    }
    Failed(ENOMEM);
    return nullptr;
  }
  auto cq = std::make_unique<Cq>();
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = user;
  cq->cqe = entries;
  cq->owner = Of(context);
  cq->its_channel = channel == nullptr ? nullptr : Of(channel);
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  SetPollCalls(cq.get());
  ScopedWorkerOwnership owned(cq->owner->runtime);
  if (const absl::Status status = Attach(owned, cq.get(), entries); !status.ok()) {
    static LogOnce log_once;
    log_once({status.code(), absl::StrCat(status.message(), "; ", kAdvice)});
    Failed(status);
    return nullptr;
  }
  return cq.release();
}

}  // namespace

int PollCq(ibv_cq* cq, int count, ibv_wc* wc) {
  Cq* mine = Of(cq);
  ScopedWorkerOwnership owned(mine->owner->runtime);
  // The port is asked only when the program has taken all that came before.
  int taken = mine->native->Poll(count, wc);
  if (taken > 0) owned.SendWaiting();
  if (taken > 0 || count <= 0) return taken;
  owned.PollForCompletions();
  taken = mine->native->Poll(count, wc);
  if (taken > 0) return taken;
  owned.activity().FoundNothing();
  return mine->native->overrun() ? -1 : 0;
}

int ReqNotifyCq(ibv_cq* cq, int solicited_only) {
  if (Runtime::IsCopy()) return ENODEV;
  ScopedWorkerOwnership owned(Of(cq)->owner->runtime);
  Of(cq)->native->Arm(solicited_only != 0);
  owned.activity().Armed();
  return 0;
}

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* init) {
  // An overrun cannot be ignored: it ends the queue pairs of the queue.
  constexpr uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  const bool flags_given = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((init->comp_mask & ~static_cast<uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS)) != 0 ||
      (init->wc_flags & ~kWcFlags) != 0 || (flags_given && (init->flags & ~kFlags) != 0)) {
    Failed(EOPNOTSUPP);
    return nullptr;
  }
  Cq* cq = Create(context, static_cast<int>(std::min<uint32_t>(init->cqe, INT32_MAX)),
                  init->cq_context, init->channel, static_cast<int>(init->comp_vector));
  if (cq == nullptr) return nullptr;
  cq->single_threaded = flags_given && (init->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  return cq;
}

POLLUX_EXPORT ibv_comp_channel* pollux_ibv_create_comp_channel(ibv_context* context) {
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  auto native = verbs::CompletionChannel::Create();
  if (!native.ok()) {
    Failed(EMFILE);
    return nullptr;
  }
  auto* channel = new Channel();
  channel->native = *std::move(native);
  channel->context = context;
  channel->fd = channel->native->fd();
  channel->refcnt = 0;
  // Whether it blocks is the program's to say, and it does unless that says otherwise.
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK);
  return channel;
}

POLLUX_EXPORT int pollux_ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  {
    const std::lock_guard lock(Of(channel)->mutex);
    if (channel->refcnt != 0) return EBUSY;
  }
  delete Of(channel);
  return 0;
}

POLLUX_EXPORT int pollux_ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq,
                                          void** cq_context) {
  engine::ApplicationActivity& activity = Of(channel->context)->runtime->activity();
  while (true) {
    if (Runtime::IsCopy()) return -1;
    if (const int error = Sleep(Of(channel), activity); error != 0) return Failed(error);
    const engine::ScopedCancellationDisable no_cancel;
    const std::lock_guard lock(Of(channel)->mutex);
    Cq* announced = TakeAnnounced(Of(channel));
    if (announced == nullptr) continue;
    announced->completion_events.Deliver();
    *cq = ibv_cq_ex_to_cq(announced);
    *cq_context = announced->cq_context;
    return 0;
  }
}

POLLUX_EXPORT void pollux_ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  Of(cq)->completion_events.Acknowledge(count);
}

POLLUX_EXPORT ibv_cq* pollux_ibv_create_cq(ibv_context* context, int entries, void* user,
                                           ibv_comp_channel* channel, int vector) {
  Cq* cq = Create(context, entries, user, channel, vector);
  return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

POLLUX_EXPORT int pollux_ibv_resize_cq(ibv_cq* cq, int entries) {
  if (entries <= 0) return EINVAL;
  if (Runtime::IsCopy()) return ENODEV;
  const MemoryFor memory(BytesOf(entries));
  if (!memory) return ENOMEM;
  ScopedWorkerOwnership owned(Of(cq)->owner->runtime);
  // What was posted before this call may complete yet.
  owned.Poll();
  const absl::Status status = Of(cq)->native->Resize(static_cast<uint32_t>(entries));
  if (!status.ok()) return absl::IsResourceExhausted(status) ? ENOMEM : EINVAL;
  cq->cqe = entries;
  return 0;
}

POLLUX_EXPORT int pollux_ibv_destroy_cq(ibv_cq* cq) {
  Cq* mine = Of(cq);
  {
    ScopedWorkerOwnership owned(mine->owner->runtime);
    if (mine->native->use_count() != 0) return EBUSY;
    if (const absl::Status status = Detach(owned, mine); !status.ok()) return ErrorNumber(status);
  }
  EndEvents(mine);
  mine->completion_events.AwaitAll();
  pthread_mutex_destroy(&cq->mutex);
  pthread_cond_destroy(&cq->cond);
  delete mine;
  return 0;
}

}  // namespace pollux::compat
