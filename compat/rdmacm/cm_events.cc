// Event channels of rdma_cm, and the events in them.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "compat/loader/export.h"
#include "compat/process/oom_reserve.h"
#include "compat/rdmacm/cm_address.h"
#include "compat/rdmacm/cm_id.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/recently_destroyed.h"

extern "C" {
int pollux_rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask);
int pollux_ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
}

namespace pollux::compat {
namespace {

// Not made at first use: a fork amid that would leave the child a guard that nobody gives back.
auto* const recently_destroyed_channels = new RecentlyDestroyed<CmChannel>();
// Where identifiers tell their events whose program has destroyed the channel first. It may find
// this one there, and destroy it too.
auto* const nowhere = new CmChannel(kNullWaiter);

// A new identifier for the peer that asks, with the context of its listener.
CmId* MakeRequest(CmId* listener, const cm::Event& event) {
  auto* id = new CmId();
  id->runtime = listener->runtime;
  id->native = event.id;
  id->channel = listener->channel;
  id->context = listener->context;
  id->ps = listener->ps;
  id->qp_type = listener->qp_type;
  id->sync = listener->sync;
  id->awaits_accept = id->is_connection = true;
  id->runtime->identifiers().insert(id);
  id->runtime->manager().SetHandler(event.id, HandlerFor(id));
  return id;
}

rdma_conn_param ToParam(const cm::ConnectionParam& from) {
  rdma_conn_param param{};
  param.responder_resources = from.responder_resources;
  param.initiator_depth = from.initiator_depth;
  param.flow_control = from.flow_control ? 1 : 0;
  param.retry_count = from.retry_count;
  param.rnr_retry_count = from.rnr_retry_count;
  param.srq = from.srq ? 1 : 0;
  param.qp_num = from.qp_num;
  return param;
}

// The parameters of one kind of identifier lie where those of the other do.
void SetParam(const CmId& id, const cm::Event& from, CmEvent* event) {
  const bool ud = id.ps == RDMA_PS_UDP;
  const absl::Span<const uint8_t> data = ud ? from.ud.private_data : from.param.private_data;
  event->private_data_bytes.assign(data.begin(), data.end());
  const void* bytes = data.empty() ? nullptr : event->private_data_bytes.data();
  const auto length = static_cast<uint8_t>(std::min<size_t>(data.size(), UINT8_MAX));
  if (ud) {
    event->param.ud.private_data = bytes;
    event->param.ud.private_data_len = length;
    event->param.ud.ah_attr = from.ud.ah_attr;
    event->param.ud.qp_num = from.ud.qp_num;
    event->param.ud.qkey = from.ud.qkey;
    return;
  }
  event->param.conn = ToParam(from.param);
  event->param.conn.private_data = bytes;
  event->param.conn.private_data_len = length;
}

void SetGroup(const CmId& id, CmEvent* event) {
  event->param.ud.private_data = nullptr;
  const auto found = id.groups.find(GroupOf(*event));
  if (found == id.groups.end()) return;
  event->group = found->second;
  event->param.ud.private_data = event->group->context;
}

void Deliver(const std::unique_ptr<CmEvent>& event) {
  event->owner->events_given.Deliver();
  if (event->group != nullptr) event->group->events_given.Deliver();
}

void Acknowledge(const CmEvent* event) {
  if (event->group != nullptr) event->group->events_given.Acknowledge();
  event->owner->events_given.Acknowledge();
  delete event;
}

// The manager implements RDMA_OPTION_ID_AFONLY only for IPv6 listeners.
bool IsOfOtherFamily(const CmId& listener, const cm::Id& request) {
  return listener.family_only && listener.route.addr.src_addr.sa_family != AF_INET6 &&
         !request.local().address.IsIpv4();
}

void OnEvent(CmId* id, const cm::Event& from) {
  // As rdma_ucm: who accepts finds that the peer has given up.
  if (id->awaits_accept && from.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
  if (id->accept_error != nullptr && from.type == RDMA_CM_EVENT_CONNECT_ERROR) {
    *id->accept_error = -from.status;
    return;
  }
  if (from.type == RDMA_CM_EVENT_CONNECT_REQUEST && IsOfOtherFamily(*id, *from.id)) {
    cm::Manager& manager = id->runtime->manager();
    manager.Reject(from.id, {}, cm::RejectReason::kInvalidServiceId).IgnoreError();
    return manager.DestroyId(from.id);
  }
  auto event = std::make_unique<CmEvent>();
  event->owner = id;
  event->id = id;
  event->event = from.type;
  event->status = from.status;
  SetParam(*id, from, event.get());
  if (from.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    event->listen_id = id;
    event->id = MakeRequest(id, from);
    Of(event->id)->offered = ToParam(from.param);
  }
  if (IsAboutGroup(*event)) SetGroup(*id, event.get());
  Of(id->channel)->events.Push(std::move(event));
}

// Nothing is resolved where there is nothing to look at.
void Fail(CmEvent& event) {
  if (event.event == RDMA_CM_EVENT_ADDR_RESOLVED) {
    event.event = RDMA_CM_EVENT_ADDR_ERROR;
  } else if (event.event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
    event.event = RDMA_CM_EVENT_ROUTE_ERROR;
  } else {
    return;
  }
  event.status = -ENODEV;
}

bool IsResolvedOrConnected(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
      return true;
    default:
      return false;
  }
}

// As librdmacm: whichever queue pair there is now, of a group that is still joined. The manager has
// attached the one that was bound when it was joined, which may be this one.
void AttachToGroup(ScopedWorkerOwnership& owned, CmEvent& event) {
  CmId* const id = Of(event.id);
  const Gid group = GroupOf(event);
  if (!owned.Has(id) || !id->groups.contains(group)) return;
  const Qp* const member = MemberOf(*id);
  if (member == nullptr) return;
  const absl::Status status = owned.worker().AttachMulticast(member->native, group);
  if (status.ok()) return;
  owned.manager().LeaveMulticast(id->native, group).IgnoreError();  // it is joined
  event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
  event.status = -ErrorNumber(status);
}

// 0 or an errno.
int MoveToRts(rdma_cm_id* id) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (pollux_rdma_init_qp_attr(id, &attr, &mask) != 0) return errno;
    if (const int error = pollux_ibv_modify_qp(id->qp, &attr, mask); error != 0) return error;
  }
  return 0;
}

// As librdmacm, of an identifier that has got its queue pair since it asked for the connection.
void EstablishByQp(CmEvent& event) {
  CmId* const id = Of(event.id);
  int error = MoveToRts(id);
  ScopedWorkerOwnership owned(id->runtime);
  if (error == 0) error = ErrorNumber(owned.manager().Establish(id->native));
  owned.Poll();
  event.event = error == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
  event.status = -error;
}

// What the program may look at in the identifier once it has the event.
void Settle(CmEvent& event) {
  CmId* const id = Of(event.id);
  if (event.event == RDMA_CM_EVENT_CONNECT_RESPONSE && id->qp != nullptr) EstablishByQp(event);
  // As librdmacm: calls on a request of a synchronous listener wait on a channel of the request's
  // own. Without a file descriptor it stays on the listener's, and rdma_get_request() tries again.
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST && id->sync != nullptr) Migrate(id, nullptr);
  ScopedWorkerOwnership owned(id->runtime);
  if (Qp* qp = id->bound; qp != nullptr) qp->qp_base.state = qp->native->state();
  if (event.event == RDMA_CM_EVENT_MULTICAST_JOIN) AttachToGroup(owned, event);
  if (!IsResolvedOrConnected(event.event)) return;
  // Another thread destroys it, and waits for this event. What there was to look at has gone.
  if (!owned.Has(id)) return Fail(event);
  FillAddresses(owned, id);
  if (event.event != RDMA_CM_EVENT_ADDR_RESOLVED) FillPath(owned, id);
  // As Linux: the backlog is of requests that the program has not been told of.
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) owned.manager().LeaveBacklog(id->native);
}

// So often a program that looks for events beside its completions is told that there is none yet.
constexpr uint8_t kMaxHeldBack = 64;

bool IsEnd(const std::unique_ptr<CmEvent>& event) {
  return event->event == RDMA_CM_EVENT_DISCONNECTED;
}

// Whether the end of a connection comes next, and completions of its queue pair wait: a program
// that destroys that at once (libfabric) would lose them. For who does not wait, since who does may
// poll for completions only then.
bool HoldsBack(CmChannel* channel) {
  if ((fcntl(channel->fd, F_GETFL) & O_NONBLOCK) == 0 || !channel->events.LookAtOldest(IsEnd)) {
    return false;
  }
  // Before the queue's lock, as for those who put events there.
  ScopedWorkerOwnership owned(CmContext()->runtime);
  const bool holds = channel->events.LookAtOldest([](const std::unique_ptr<CmEvent>& event) {
    const Qp* qp = event->owner->bound;
    if (!IsEnd(event) || qp == nullptr || event->times_held_back == kMaxHeldBack) return false;
    ++event->times_held_back;
    const uint32_t number = qp->qp_base.qp_num;
    return Of(qp->qp_base.send_cq)->native->HasCompletionOf(number) ||
           Of(qp->qp_base.recv_cq)->native->HasCompletionOf(number);
  });
  if (holds) channel->events.TellAgain();
  return holds;
}

}  // namespace

bool IsAboutGroup(const CmEvent& event) {
  return event.event == RDMA_CM_EVENT_MULTICAST_JOIN ||
         event.event == RDMA_CM_EVENT_MULTICAST_ERROR;
}

Gid GroupOf(const CmEvent& event) {
  Gid group;
  std::ranges::copy(event.param.ud.ah_attr.grh.dgid.raw, group.raw.begin());
  return group;
}

cm::EventHandler HandlerFor(CmId* id) {
  return [id](const cm::Event& event) { OnEvent(id, event); };
}

void AcknowledgeLast(CmId* id) {
  if (id->event == nullptr) return;
  Acknowledge(static_cast<CmEvent*>(std::exchange(id->event, nullptr)));
}

POLLUX_EXPORT rdma_event_channel* pollux_rdma_create_event_channel() {
  if (CmContext() == nullptr) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  auto* channel = new CmChannel();
  channel->fd = channel->events.fd();
  if (channel->fd >= 0) return channel;
  delete channel;
  Failed(EMFILE);
  return nullptr;
}

POLLUX_EXPORT void pollux_rdma_destroy_event_channel(rdma_event_channel* channel) {
  if (channel == nullptr || channel == nowhere) return;
  if (Context* device = OpenedCmContext(); device != nullptr) {
    ScopedWorkerOwnership owned(device->runtime);
    for (CmIdBase* id : owned.identifiers()) {
      if (id->channel == channel) id->channel = nowhere;
    }
    Of(channel)->events.RemoveIf([](std::unique_ptr<CmEvent>& event) {
      nowhere->events.Push(std::move(event));
      return true;
    });
  }
  recently_destroyed_channels->Put(std::unique_ptr<CmChannel>(Of(channel)));
}

POLLUX_EXPORT int pollux_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return Failed(EINVAL);
  if (Runtime::IsCopy()) return -1;
  if (HoldsBack(Of(channel))) return Failed(EAGAIN);
  std::unique_ptr<CmEvent> taken;
  const int error = Of(channel)->events.Take(&taken, Deliver);
  if (error != 0) return Failed(error);
  Settle(*taken);
  *event = taken.release();
  return 0;
}

POLLUX_EXPORT int pollux_rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return Failed(EINVAL);
  Acknowledge(static_cast<CmEvent*>(event));
  return 0;
}

int Complete(CmId* id) {
  if (id->sync == nullptr) return 0;
  if (id->is_removed) return Failed(ENODEV);
  AcknowledgeLast(id);
  if (pollux_rdma_get_cm_event(id->channel, &id->event) != 0) return -1;
  if (id->event->event == RDMA_CM_EVENT_REJECTED) return Failed(ECONNREFUSED);
  if (id->event->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    id->is_removed = true;
    return Failed(ENODEV);
  }
  if (id->event->status == 0) return 0;
  return Failed(id->event->status < 0 ? -id->event->status : ECONNREFUSED);
}

int Migrate(CmId* id, rdma_event_channel* channel) {
  if (Runtime::IsCopy()) return -1;
  std::shared_ptr<CmChannel> sync;
  if (channel == nullptr) {
    sync = std::make_shared<CmChannel>();
    sync->fd = sync->events.fd();
    if (sync->fd < 0) return Failed(EMFILE);
    channel = sync.get();
  }
  std::vector<std::unique_ptr<CmEvent>> moved;
  // With a listener those go who ask for it and of whom the program has not heard yet.
  std::set<CmId*> movers = {id};
  // The old channel, should it be this identifier's own, lives until its events are out of it.
  const std::shared_ptr<CmChannel> before = id->sync;
  ScopedWorkerOwnership owned(id->runtime);
  Of(id->channel)->events.RemoveIf([&](std::unique_ptr<CmEvent>& event) {
    if (!movers.contains(event->owner)) return false;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) movers.insert(Of(event->id));
    moved.push_back(std::move(event));
    return true;
  });
  for (CmId* mover : movers) {
    mover->channel = channel;
    mover->sync = sync;
  }
  for (std::unique_ptr<CmEvent>& event : moved) Of(channel)->events.Push(std::move(event));
  return 0;
}

// Who has taken an event in the old channel is done with it when this returns.
POLLUX_EXPORT int pollux_rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  CmId* const mine = Of(id);
  if (channel == nullptr && mine->sync != nullptr) return Failed(EINVAL);
  const bool waited = mine->sync != nullptr;
  // Events keep their place among those of others where they stay.
  if (channel != id->channel && Migrate(mine, channel) != 0) return -1;
  if (waited) AcknowledgeLast(mine);
  mine->events_given.AwaitAll();
  return 0;
}

}  // namespace pollux::compat
