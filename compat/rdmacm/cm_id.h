// The identifiers and event channels of librdmacm that programs use.
#ifndef POLLUX_COMPAT_RDMACM_CM_ID_H_
#define POLLUX_COMPAT_RDMACM_CM_ID_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cm/manager.h"
#include "compat/runtime/cm_id_base.h"
#include "compat/runtime/event_queue.h"
#include "compat/verbs/objects.h"
#include "compat/verbs/unacked_events.h"

namespace pollux::compat {

// The layouts of rdma-core 44 to 56, for which programs were compiled.
static_assert(sizeof(rdma_cm_id) == 416 && sizeof(rdma_cm_event) == 80);
static_assert(sizeof(rdma_event_channel) == 4);

struct CmId;

// A multicast group that the program has asked an identifier to join.
struct CmGroup {
  explicit CmGroup(void* context_of_program) : context(context_of_program) {}
  void* const context;
  UnackedEvents events_given;  // leaving the group waits for them
};

// Passed to the program by rdma_get_cm_event() and destroyed by rdma_ack_cm_event().
struct CmEvent : rdma_cm_event {
  CmEvent() : rdma_cm_event{} {}
  CmId* owner = nullptr;  // its destruction waits for this event; for a request, the listener
  std::shared_ptr<CmGroup> group;  // of an event about a group
  std::vector<uint8_t> private_data_bytes;
  uint8_t times_held_back = 0;
};

struct CmChannel : rdma_event_channel {
  CmChannel() : rdma_event_channel{} {}
  explicit CmChannel(NullWaiter /*unused*/) : rdma_event_channel{-1}, events(kNullWaiter) {}
  EventQueue<std::unique_ptr<CmEvent>> events;
};

struct CmId : CmIdBase {
  Runtime* runtime = nullptr;
  // of an identifier without a channel of the program: calls wait on it
  std::shared_ptr<CmChannel> sync;
  UnackedEvents events_given;
  std::optional<rdma_conn_param> offered;  // the peer's parameters without its private data
  bool awaits_accept = false;              // a request that the program has not accepted yet
  int* accept_error = nullptr;             // receives the error for the rdma_accept() in progress
  bool is_connection = false;              // a connection, a request for one, or an ended one
  bool is_removed = false;                 // Complete() took RDMA_CM_EVENT_DEVICE_REMOVAL
  uint8_t ack_timeout = 0;                 // RDMA_OPTION_ID_ACK_TIMEOUT
  bool family_only = false;                // RDMA_OPTION_ID_AFONLY
  ibv_sa_path_rec path{};                  // route.path_rec points to it once there is a route
  std::map<Gid, std::shared_ptr<CmGroup>> groups;
  // Set by rdma_create_ep(3) of a listener, for the identifiers of its requests.
  std::optional<ibv_qp_init_attr> qp_of_requests;
};

// The queue pair that is a member of the identifier's groups; null if there is none.
inline Qp* MemberOf(const CmId& id) { return id.qp == nullptr ? nullptr : Of(id.qp); }

// Releases the bound queue pair from CM if the program has removed it from `qp`.
void ReleaseMovedQp(ScopedWorkerOwnership& owned, CmId* id);

// Whether the event reports the result of joining a group, and which group.
bool IsAboutGroup(const CmEvent& event);
Gid GroupOf(const CmEvent& event);

inline CmId* Of(rdma_cm_id* id) { return static_cast<CmId*>(id); }
inline CmChannel* Of(rdma_event_channel* channel) { return static_cast<CmChannel*>(channel); }

// The context that librdmacm opens on behalf of programs, and its protection domain. There is one
// of each, until the process ends. Return null and set errno on an error.
Context* CmContext();
// Returns the context if it was opened, also in a forked child; otherwise null, without setting
// errno.
Context* OpenedCmContext();
ibv_pd* CmDomain();

// As ZeroOrErrno(), except that it returns EINVAL, as librdmacm does, if the identifier's state
// does not allow the call.
int CmResult(const absl::Status& status);  // 0, or -1 with errno

// The handler that the manager calls for `id`, during a ScopedWorkerOwnership.
cm::EventHandler HandlerFor(CmId* id);

// Completes a call on an identifier without a channel: waits for its event, which is then
// id->event. Returns -1 and sets errno if the event reports a failure. Once the event is
// RDMA_CM_EVENT_DEVICE_REMOVAL, this call and all later ones fail with ENODEV. Not during a
// ScopedWorkerOwnership.
int Complete(CmId* id);
// Acknowledges id->event.
void AcknowledgeLast(CmId* id);
// Moves the identifier, with the events that the program has not taken yet, to another channel;
// null: to a channel of its own, on which its calls wait. Returns 0, or -1 and sets errno. Not
// during a ScopedWorkerOwnership.
int Migrate(CmId* id, rdma_event_channel* channel);

// Copies the addresses of the native identifier and of its peer to `id`, and sets the device.
void FillAddresses(ScopedWorkerOwnership& owned, CmId* id);
// Sets the path between them.
void FillPath(ScopedWorkerOwnership& owned, CmId* id);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RDMACM_CM_ID_H_
