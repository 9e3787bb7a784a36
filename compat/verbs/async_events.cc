#include "compat/verbs/async_events.h"

#include "compat/loader/export.h"
#include "compat/verbs/error_number.h"

namespace pollux::compat {
namespace {

// The object that an event is about; null for one about the port.
UnackedEvents* UnackedEventsOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &Of(event.element.cq)->async_events_given;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &Of(event.element.srq)->async_events_given;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return &Of(event.element.qp)->async_events_given;
    default:
      return nullptr;
  }
}

template <class Object>
void End(Object* object) {
  object->owner->async_events.RemoveIf([object](const ibv_async_event& event) {
    return UnackedEventsOf(event) == &object->async_events_given;
  });
  object->async_events_given.AwaitAll();
}

}  // namespace

verbs::EventHandler HandlerFor(Qp* qp) {
  return [qp](ibv_event_type type) {
    if (qp->connection != nullptr) {
      qp->owner->runtime->manager().Notify(qp->connection->native, type);
    }
    // The first packet in RTS is news for the manager alone: of an HCA's queue pair it is none.
    if (type == IBV_EVENT_COMM_EST && qp->native->state() != IBV_QPS_RTR) return;
    ibv_async_event event{};
    event.element.qp = &qp->qp_base;
    event.event_type = type;
    qp->owner->async_events.Push(event);
  };
}

verbs::EventHandler HandlerFor(Cq* cq) {
  return [cq](ibv_event_type type) {
    ibv_async_event event{};
    event.element.cq = ibv_cq_ex_to_cq(cq);
    event.event_type = type;
    cq->owner->async_events.Push(event);
  };
}

verbs::EventHandler HandlerFor(Srq* srq) {
  return [srq](ibv_event_type type) {
    ibv_async_event event{};
    event.element.srq = srq;
    event.event_type = type;
    srq->owner->async_events.Push(event);
  };
}

void EndEvents(Qp* qp) { End(qp); }
void EndEvents(Cq* cq) { End(cq); }
void EndEvents(Srq* srq) { End(srq); }

POLLUX_EXPORT int pollux_ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const int error = Of(context)->async_events.Take(event, [](const ibv_async_event& taken) {
    if (UnackedEvents* unacked_events = UnackedEventsOf(taken)) unacked_events->Deliver();
  });
  return error == 0 ? 0 : Failed(error);
}

POLLUX_EXPORT void pollux_ibv_ack_async_event(ibv_async_event* event) {
  if (UnackedEvents* unacked_events = UnackedEventsOf(*event)) unacked_events->Acknowledge();
}

}  // namespace pollux::compat
