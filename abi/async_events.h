// Asynchronous events of a context.
#ifndef POLLUX_ABI_ASYNC_EVENTS_H_
#define POLLUX_ABI_ASYNC_EVENTS_H_

#include "abi/objects.h"
#include "stack/verbs/event_list.h"

namespace pollux::abi {

// What the native object calls for `object`; it outlives the native one.
verbs::EventHandler HandlerFor(Qp* qp);
verbs::EventHandler HandlerFor(Cq* cq);
verbs::EventHandler HandlerFor(Srq* srq);

// Takes back what the program has not been given, and waits until it has acknowledged the rest. Not
// during a Turn, and after the native object is gone.
void EndEvents(Qp* qp);
void EndEvents(Cq* cq);
void EndEvents(Srq* srq);

}  // namespace pollux::abi

#endif  // POLLUX_ABI_ASYNC_EVENTS_H_
