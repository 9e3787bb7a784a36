// Event channels of rdma_cm, and the events in them.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "abi/cm_address.h"
#include "abi/cm_id.h"
#include "abi/error_number.h"
#include "abi/export.h"
#include "abi/retired.h"

namespace pollux::abi {
namespace {

// A new identifier for the peer that asks, with the context of its listener.
CmId* MakeRequest(CmId* listener, const cm::Event& event) {
  auto* id = new CmId();
  id->world = listener->world;
  id->native = event.id;
  id->channel = listener->channel;
  id->context = listener->context;
  id->ps = listener->ps;
  id->qp_type = listener->qp_type;
  id->sync = listener->sync;
  id->world->identifiers().insert(id);
  id->world->manager().SetHandler(event.id, HandlerFor(id));
  return id;
}

rdma_conn_param ToParam(const cm::ConnectionParam& from) {
  rdma_conn_param param{};
  param.responder_resources = from.responder_resources;
  param.initiator_depth = from.initiator_depth;
  param.flow_control = from.flow_control ? 1 : 0;
  param.retry_count = from.retry_count;
  param.rnr_retry_count = from.rnr_retry_count;
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
  Gid group;
  const ibv_gid& gid = event->param.ud.ah_attr.grh.dgid;
  std::copy(std::begin(gid.raw), std::end(gid.raw), group.raw.begin());
  const auto found = id.groups.find(group);
  event->param.ud.private_data = found == id.groups.end() ? nullptr : found->second;
}

void OnEvent(CmId* id, const cm::Event& from) {
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
  if (from.type == RDMA_CM_EVENT_MULTICAST_JOIN) SetGroup(*id, event.get());
  Of(id->channel)->events.Push(std::move(event));
}

// What the program may look at in the identifier once it has the event.
void Settle(const CmEvent& event) {
  if (event.event != RDMA_CM_EVENT_ADDR_RESOLVED && event.event != RDMA_CM_EVENT_ESTABLISHED &&
      event.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    return;
  }
  Turn turn(Of(event.id)->world);
  FillAddresses(turn, Of(event.id));
}

// So often a program that looks for events beside its completions is told that there is none yet.
constexpr uint8_t kMostHeldBack = 64;

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
  Turn turn(CmContext()->world);
  const bool holds = channel->events.LookAtOldest([](const std::unique_ptr<CmEvent>& event) {
    const Qp* qp = event->owner->bound;
    if (!IsEnd(event) || qp == nullptr || event->times_held_back == kMostHeldBack) return false;
    ++event->times_held_back;
    const uint32_t number = qp->qp_base.qp_num;
    return Of(qp->qp_base.send_cq)->native->HasCompletionOf(number) ||
           Of(qp->qp_base.recv_cq)->native->HasCompletionOf(number);
  });
  if (holds) channel->events.TellAgain();
  return holds;
}

}  // namespace

cm::EventHandler HandlerFor(CmId* id) {
  return [id](const cm::Event& event) { OnEvent(id, event); };
}

void AcknowledgeLast(CmId* id) {
  if (id->event == nullptr) return;
  auto* event = static_cast<CmEvent*>(std::exchange(id->event, nullptr));
  event->owner->events_given.Acknowledge();
  delete event;
}

POLLUX_EXPORT rdma_event_channel* pollux_rdma_create_event_channel() {
  if (CmContext() == nullptr) return nullptr;
  auto* channel = new CmChannel();
  channel->fd = channel->events.fd();
  if (channel->fd >= 0) return channel;
  delete channel;
  Failed(EMFILE);
  return nullptr;
}

POLLUX_EXPORT void pollux_rdma_destroy_event_channel(rdma_event_channel* channel) {
  static auto* const retired = new Retired<CmChannel>();
  if (channel != nullptr) retired->Put(std::unique_ptr<CmChannel>(Of(channel)));
}

POLLUX_EXPORT int pollux_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (channel == nullptr || event == nullptr) return Failed(EINVAL);
  if (HoldsBack(Of(channel))) return Failed(EAGAIN);
  std::unique_ptr<CmEvent> taken;
  const int error = Of(channel)->events.Take(
      &taken, [](const std::unique_ptr<CmEvent>& given) { given->owner->events_given.Deliver(); });
  if (error != 0) return Failed(error);
  Settle(*taken);
  *event = taken.release();
  return 0;
}

POLLUX_EXPORT int pollux_rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return Failed(EINVAL);
  auto* given = static_cast<CmEvent*>(event);
  given->owner->events_given.Acknowledge();
  delete given;
  return 0;
}

int Complete(CmId* id) {
  if (id->sync == nullptr) return 0;
  AcknowledgeLast(id);
  if (pollux_rdma_get_cm_event(id->channel, &id->event) != 0) return -1;
  if (id->event->event == RDMA_CM_EVENT_REJECTED) return Failed(ECONNREFUSED);
  if (id->event->status == 0) return 0;
  return Failed(id->event->status < 0 ? -id->event->status : ECONNREFUSED);
}

POLLUX_EXPORT int pollux_rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  CmId* mine = Of(id);
  std::shared_ptr<CmChannel> sync;
  if (channel == nullptr) {
    sync = std::make_shared<CmChannel>();
    sync->fd = sync->events.fd();
    if (sync->fd < 0) return Failed(EMFILE);
    channel = sync.get();
  }
  std::vector<std::unique_ptr<CmEvent>> moved;
  // With a listener those go who ask for it and of whom the program has not heard yet.
  std::set<CmId*> movers = {mine};
  // The old channel, should it be this identifier's own, lives until its events are out of it.
  const std::shared_ptr<CmChannel> before = mine->sync;
  Turn turn(mine->world);
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

}  // namespace pollux::abi
