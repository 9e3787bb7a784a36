// The objects that programs hold, as rdma-core lays them out, each with Pollux's own behind it.
//
// What a program sees of them is the beginning; their addresses are what it passes back. Made and
// destroyed by the calls in device_list.cc, memory.cc, completion.cc, queue_pair.cc and
// shared_receive.cc; the native object is touched during a ScopedWorkerOwnership only.
#ifndef POLLUX_COMPAT_VERBS_OBJECTS_H_
#define POLLUX_COMPAT_VERBS_OBJECTS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "compat/process/critical_section.h"
#include "compat/process/fork_gate.h"
#include "compat/runtime/cm_id_base.h"
#include "compat/runtime/event_queue.h"
#include "compat/runtime/runtime.h"
#include "compat/verbs/unacked_events.h"
#include "compat/verbs/work_request_chain.h"
#include "stack/memory/protection_domain.h"
#include "stack/verbs/address_handle.h"
#include "stack/verbs/completion_channel.h"
#include "stack/verbs/completion_queue.h"
#include "stack/verbs/queue_pair.h"
#include "stack/verbs/shared_receive_queue.h"

namespace pollux::compat {

// Layouts of rdma-core 44, which programs were compiled for.
static_assert(sizeof(ibv_device) == 664);
static_assert(sizeof(verbs_context) == 648 && offsetof(verbs_context, context) == 320);
static_assert(sizeof(ibv_cq) == 128 && sizeof(ibv_cq_ex) == 288);
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_qp_ex) == 352);

// The device. Providers' own functions (mlx5dv_is_supported, efadv_query_device) look behind what
// verbs.h shows for something that they know, and find zeroes.
struct DeviceRecord : ibv_device {
  std::array<uint8_t, 1024> nothing{};
};

struct Context : verbs_context {
  explicit Context(Runtime* its_runtime) : verbs_context{}, runtime(its_runtime) {}
  Runtime* runtime;
  EventQueue<ibv_async_event> async_events;
};

struct Pd : ibv_pd {
  memory::ProtectionDomain* native = nullptr;
};

struct Mr : ibv_mr {
  memory::MemoryRegion native;
};

struct Cq;

struct Channel : ibv_comp_channel {
  std::unique_ptr<verbs::CompletionChannel> native;
  // Below: who takes events, and who destroys what they are about.
  GatedMutex mutex;
  std::map<const verbs::CompletionQueue*, Cq*> queues;
  std::deque<Cq*> taken;  // from the native channel, for the program to take; oldest first
};

struct Cq : ibv_cq_ex {
  Cq() : ibv_cq_ex{} {}
  Context* owner = nullptr;
  verbs::CompletionQueue* native = nullptr;
  Channel* its_channel = nullptr;
  UnackedEvents completion_events, async_events_given;
  // Of ibv_start_poll(3): the one that is being looked at, by one thread until its ibv_end_poll(3),
  // which the program sees to itself when it has said so.
  ibv_wc current{};
  CriticalSection looking;
  bool single_threaded = false;
};

struct Srq : ibv_srq {
  Srq() : ibv_srq{} {}
  Context* owner = nullptr;
  verbs::SharedReceiveQueue* native = nullptr;
  UnackedEvents async_events_given;
};

struct Qp : ibv_qp_ex {
  Qp() : ibv_qp_ex{} {}
  Context* owner = nullptr;
  verbs::QueuePair* native = nullptr;
  // That moves it, and is told of its events. Whichever of the two goes first takes itself out of
  // the other.
  CmIdBase* connection = nullptr;
  bool was_connected = false;  // its number rests for the time that a connection's does
  WorkRequestChain chain;
  UnackedEvents async_events_given;
};

inline Context* Of(ibv_context* context) { return static_cast<Context*>(verbs_get_ctx(context)); }
inline Pd* Of(ibv_pd* pd) { return static_cast<Pd*>(pd); }
inline Mr* Of(ibv_mr* mr) { return static_cast<Mr*>(mr); }
inline Channel* Of(ibv_comp_channel* channel) { return static_cast<Channel*>(channel); }
// As ibv_cq_ex_to_cq(): the one begins as the other does.
inline Cq* Of(ibv_cq_ex* cq) { return static_cast<Cq*>(cq); }
inline Cq* Of(ibv_cq* cq) { return static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Srq* Of(ibv_srq* srq) { return static_cast<Srq*>(srq); }
inline Qp* Of(ibv_qp_ex* qp) { return static_cast<Qp*>(qp); }
inline Qp* Of(ibv_qp* qp) { return static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(qp)); }

// What stands for a native object in a program's hands, for those who make it and those who import
// it. Without the address, which an importer does not learn.
ibv_pd* MakePd(ibv_context* context, memory::ProtectionDomain* native);
ibv_mr* MakeMr(ibv_pd* pd, const memory::MemoryRegion& native);

// The calls that verbs.h's inline functions reach through the context, each in the file of its
// object.
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int DeallocMw(ibv_mw* mw);
int PollCq(ibv_cq* cq, int count, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
// As PostSend(), all of them or none.
int PostChain(Qp* qp, ibv_send_wr* first);
int QueryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr, size_t size);
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t size);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* init);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* init);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* init);

// Fills in the calls by which ibv_wr_*(3) builds work requests, and takes the memory for them.
void SetBuilder(Qp* qp);
// Fills in the calls by which ibv_start_poll(3) and its kin look at completions.
void SetPollCalls(Cq* cq);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_OBJECTS_H_
