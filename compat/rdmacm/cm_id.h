// Identifiers and event channels of librdmacm, as programs hold them.
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

// Layouts of rdma-core 44, which programs were compiled for.
static_assert(sizeof(rdma_cm_id) == 416 && sizeof(rdma_cm_event) == 80);
static_assert(sizeof(rdma_event_channel) == 4);

struct CmId;

// Given to the program by rdma_get_cm_event, gone with rdma_ack_cm_event.
struct CmEvent : rdma_cm_event {
  CmEvent() : rdma_cm_event{} {}
  CmId* owner = nullptr;  // whose destruction waits for it: of a request the listener
  std::vector<uint8_t> private_data_bytes;
  uint8_t times_held_back = 0;
};

struct CmChannel : rdma_event_channel {
  CmChannel() : rdma_event_channel{} {}
  explicit CmChannel(NullWaiter /*unused*/) : rdma_event_channel{-1}, events(kNobodyWaits) {}
  EventQueue<std::unique_ptr<CmEvent>> events;
};

struct CmId : CmIdBase {
  Runtime* runtime = nullptr;
  std::shared_ptr<CmChannel> sync;  // of one without a channel of the program's: calls wait
  UnackedEvents events_given;
  std::optional<rdma_conn_param> offered;  // what the peer asked for, without its private data
  bool awaits_accept = false;   // of a peer that asks, and that the program has not accepted
  int* accept_error = nullptr;  // of the call that accepts: where it hears what it returns
  bool is_connection = false;   // or asks for one, or was one
  uint8_t ack_timeout = 0;      // RDMA_OPTION_ID_ACK_TIMEOUT
  bool family_only = false;     // RDMA_OPTION_ID_AFONLY
  ibv_sa_path_rec path{};       // route.path_rec, once there is a route
  std::map<Gid, void*> groups;  // the program's context of each group that it joined
  // What rdma_create_ep(3) of a listener keeps for the identifiers of its requests.
  std::optional<ibv_qp_init_attr> qp_of_requests;
};

// Whose groups its groups are. Null: nobody's.
inline Qp* MemberOf(const CmId& id) { return id.qp == nullptr ? nullptr : Of(id.qp); }

// Releases the bound queue pair from CM if the program has removed it from `qp`; else does nothing.
void ReleaseMovedQp(ScopedWorkerOwnership& owned, CmId* id);

// Of joining a group, and which.
bool IsAboutGroup(const CmEvent& event);
Gid GroupOf(const CmEvent& event);

inline CmId* Of(rdma_cm_id* id) { return static_cast<CmId*>(id); }
inline CmChannel* Of(rdma_event_channel* channel) { return static_cast<CmChannel*>(channel); }

// The context that librdmacm opens on the programs' behalf, and its protection domain: one of each,
// until the process ends. Null with errno set.
Context* CmContext();
Context* OpenedCmContext();  // as it is, in a copy of the process too; null without errno
ibv_pd* CmDomain();

// As absl::Status says it, but for what the identifier's state does not allow: EINVAL, as
// librdmacm.
int CmResult(const absl::Status& status);  // 0, or -1 with errno

// What the manager calls for `id`, during a ScopedWorkerOwnership.
cm::EventHandler HandlerFor(CmId* id);

// After a call on an identifier without a channel: waits for the event that ends it, which is then
// id->event. -1 with errno when the event is a failure. Not during a ScopedWorkerOwnership.
int Complete(CmId* id);
// Acknowledges id->event.
void AcknowledgeLast(CmId* id);
// Gives it another channel, or for null one of its own, for which calls wait, and takes along the
// events that the program has not taken. 0, or -1 with errno. Not during a ScopedWorkerOwnership.
int Migrate(CmId* id, rdma_event_channel* channel);

// Takes over what the native identifier knows of itself and its peer, and the device.
void FillAddresses(ScopedWorkerOwnership& owned, CmId* id);
// And the path between them.
void FillPath(ScopedWorkerOwnership& owned, CmId* id);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_RDMACM_CM_ID_H_
