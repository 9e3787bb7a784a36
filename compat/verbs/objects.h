// The verbs objects of programs: each begins with the structure of rdma-core and refers to the
// native object of Pollux.
//
// Programs see only the beginning and pass the address back. Created and destroyed by the calls in
// device_list.cc, memory.cc, completion.cc, queue_pair.cc and shared_receive.cc. Native objects are
// accessed only during a ScopedWorkerOwnership.
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

// The layouts of rdma-core 44 to 56, for which programs were compiled.
static_assert(sizeof(ibv_device) == 664);
static_assert(sizeof(verbs_context) == 648 && offsetof(verbs_context, context) == 320);
static_assert(sizeof(ibv_cq) == 128 && sizeof(ibv_cq_ex) == 288);
static_assert(sizeof(ibv_qp) == 160 && offsetof(ibv_qp_ex, wr_atomic_write) == 344);

// The device. Provider-specific functions (mlx5dv_is_supported, efadv_query_device) examine memory
// after the public ibv_device to recognise their own devices; here they find zeroes.
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
  // Protects the members below. Locked by threads that take events and by threads that destroy the
  // objects of these events.
  GatedMutex mutex;
  std::map<const verbs::CompletionQueue*, Cq*> queues;
  std::deque<Cq*> taken;  // taken from the native channel, not yet by the program; oldest first
};

struct Cq : ibv_cq_ex {
  Cq() : ibv_cq_ex{} {}
  Context* owner = nullptr;
  verbs::CompletionQueue* native = nullptr;
  Channel* its_channel = nullptr;
  UnackedEvents completion_events, async_events_given;
  // For ibv_start_poll(3): the current completion. `looking` admits one thread until its
  // ibv_end_poll(3), unless the program has declared that it uses only one thread.
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

// rdma-core 45 and later have wr_flush at the end of ibv_qp_ex, which 44 does not.
using FlushBuilder = void (*)(ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t length,
                              uint8_t type, uint8_t level);
inline constexpr size_t kWrFlushOffset = 352;
static_assert(sizeof(ibv_qp_ex) == kWrFlushOffset ||
              sizeof(ibv_qp_ex) == kWrFlushOffset + sizeof(FlushBuilder));

struct Qp : ibv_qp_ex {
  Qp() : ibv_qp_ex{} {}
  FlushBuilder wr_flush_of_45 = nullptr;  // first, where programs find it if ibv_qp_ex lacks it
  Context* owner = nullptr;
  verbs::QueuePair* native = nullptr;
  // The identifier that changes the queue pair's state and receives its events. The first of the
  // two to be destroyed removes itself from the other.
  CmIdBase* connection = nullptr;
  WorkRequestChain chain;
  UnackedEvents async_events_given;
  // The groups that the interface has joined for ibv_attach_mcast(3), and on which VLAN.
  std::map<Gid, uint16_t> groups;
};

inline Context* Of(ibv_context* context) { return static_cast<Context*>(verbs_get_ctx(context)); }
inline Pd* Of(ibv_pd* pd) { return static_cast<Pd*>(pd); }
inline Mr* Of(ibv_mr* mr) { return static_cast<Mr*>(mr); }
inline Channel* Of(ibv_comp_channel* channel) { return static_cast<Channel*>(channel); }
// As ibv_cq_ex_to_cq(): both structures have the same beginning.
inline Cq* Of(ibv_cq_ex* cq) { return static_cast<Cq*>(cq); }
inline Cq* Of(ibv_cq* cq) { return static_cast<Cq*>(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Srq* Of(ibv_srq* srq) { return static_cast<Srq*>(srq); }
inline Qp* Of(ibv_qp_ex* qp) { return static_cast<Qp*>(qp); }
inline Qp* Of(ibv_qp* qp) { return static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(qp)); }

// Create the program's object for a native one, for creation and for import. They do not set the
// address, which an importer does not know.
ibv_pd* MakePd(ibv_context* context, memory::ProtectionDomain* native);
ibv_mr* MakeMr(ibv_pd* pd, const memory::MemoryRegion& native);

// The functions that inline functions of verbs.h call through the context. Each is defined in the
// file of its object.
ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
int DeallocMw(ibv_mw* mw);
int PollCq(ibv_cq* cq, int count, ibv_wc* wc);
int ReqNotifyCq(ibv_cq* cq, int solicited_only);
int PostSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int PostRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
// As PostSend(), but posts either all requests or none.
int PostChain(Qp* qp, ibv_send_wr* first);
int QueryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr, size_t size);
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t size);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* init);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* init);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* init);

// Sets the functions by which ibv_wr_*(3) builds work requests, and allocates the memory for them.
void SetBuilder(Qp* qp);
// Sets the functions of ibv_start_poll(3) and related calls.
void SetPollCalls(Cq* cq);

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_OBJECTS_H_
