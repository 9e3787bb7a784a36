// Asynchronous events of a context.
#ifndef POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_
#define POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_

#include "compat/verbs/objects.h"
#include "stack/verbs/event_list.h"

namespace pollux::compat {

// The handler that the native object calls for events of `qp`, `cq` or `srq`, which must outlive
// the native object.
verbs::EventHandler HandlerFor(Qp* qp);
verbs::EventHandler HandlerFor(Cq* cq);
verbs::EventHandler HandlerFor(Srq* srq);

// Removes the events that were not delivered to the program, and waits until it has acknowledged
// the others. Call it after the native object was destroyed, and not during a
// ScopedWorkerOwnership.
void EndEvents(Qp* qp);
void EndEvents(Cq* cq);
void EndEvents(Srq* srq);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_
