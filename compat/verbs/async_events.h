// Asynchronous events of a context.
#ifndef POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_
#define POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_

#include "compat/verbs/objects.h"
#include "stack/verbs/event_list.h"

namespace pollux::compat {

// What the native object calls for `object`; it outlives the native one.
verbs::EventHandler HandlerFor(Qp* qp);
verbs::EventHandler HandlerFor(Cq* cq);
verbs::EventHandler HandlerFor(Srq* srq);

// Takes back what the program has not been given, and waits until it has acknowledged the rest. Not
// during a ScopedWorkerOwnership, and after the native object is gone.
void EndEvents(Qp* qp);
void EndEvents(Cq* cq);
void EndEvents(Srq* srq);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_ASYNC_EVENTS_H_
