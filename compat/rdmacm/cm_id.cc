// Identifiers of rdma_cm: made, placed, resolved, destroyed.
#include "compat/rdmacm/cm_id.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "compat/loader/export.h"
#include "compat/process/forked_child.h"
#include "compat/process/oom_reserve.h"
#include "compat/rdmacm/cm_address.h"
#include "compat/verbs/context.h"
#include "compat/verbs/error_number.h"

extern "C" ibv_pd* pollux_ibv_alloc_pd(ibv_context* context);

namespace pollux::compat {
namespace {

std::mutex context_mutex;  // of who makes the two, which all others only read
std::atomic<Context*> cm_context{nullptr};
std::atomic<ibv_pd*> cm_domain{nullptr};

// What the program sees of the device, once the identifier has an address of it. The domain is
// there since the identifier is.
void Attach(CmId* id) {
  if (id->verbs != nullptr) return;
  id->verbs = &CmContext()->context;
  id->pd = CmDomain();
  id->port_num = 1;
}

void SetGids(CmId* id) {
  const SocketAddress& local = id->native->local();
  const SocketAddress& peer = id->native->peer();
  rdma_ib_addr& ib = id->route.addr.addr.ibaddr;
  std::copy(local.address.raw.begin(), local.address.raw.end(), ib.sgid.raw);
  std::copy(peer.address.raw.begin(), peer.address.raw.end(), ib.dgid.raw);
  ib.pkey = htobe16(0xFFFF);
}

// Nobody hears of the identifier any more; it is the caller's to delete.
void EndNative(CmId* id) {
  ScopedWorkerOwnership owned(id->runtime);
  // Ended already when the process is about to exit. Who has an event of it still calls. The peer
  // of a copy's is the other process's.
  if (owned.identifiers().erase(id) != 0 && !ForkedChild::Is()) {
    owned.manager().DestroyId(std::exchange(id->native, id->runtime->ended()));
  }
  // Its queue pair may go before the rest of it.
  if (Qp* qp = std::exchange(id->bound, nullptr); qp != nullptr) qp->connection = nullptr;
  owned.Poll();
}

void Destroy(CmId* id);

// Requests that the program has not been told of go with their listener.
void RemoveEvents(CmId* id) {
  std::vector<CmId*> requests;
  Of(id->channel)->events.RemoveIf([&](const std::unique_ptr<CmEvent>& event) {
    if (event->owner != id) return false;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) requests.push_back(Of(event->id));
    return true;
  });
  for (CmId* request : requests) Destroy(request);
}

void Destroy(CmId* id) {
  EndNative(id);
  AcknowledgeLast(id);
  RemoveEvents(id);
  id->events_given.AwaitAll();
  delete id;
}

bool IsLoopback(const Gid& address) {
  constexpr uint32_t kLoopbackNet = 127;
  Gid loopback6{};
  loopback6.raw.back() = 1;
  return address == loopback6 || (address.IsIpv4() && address.Ipv4() >> 24 == kLoopbackNet);
}

// The host's loopback address stands for the port's first one of its kind, as the kernel binds it
// to a device. Unchanged when there is none.
Gid InPlaceOfLoopback(ScopedWorkerOwnership& owned, const Gid& loopback) {
  for (uint32_t i = 0; i < owned.interface().gid_table_size(); ++i) {
    const absl::StatusOr<Gid> own = owned.interface().QueryGid(static_cast<int>(i));
    if (own.ok() && !own->IsLinkLocal() && own->IsIpv4() == loopback.IsIpv4()) return *own;
  }
  return loopback;
}

// Whether the address is not said to be on another link than the device's.
bool IsInReach(const CmId& id, const sockaddr* address) {
  const uint32_t scope = ScopeOf(address), own = id.runtime->scope();
  return scope == 0 || own == 0 || scope == own;
}

int BindTo(CmId* id, SocketAddress local, sa_family_t family) {
  ScopedWorkerOwnership owned(id->runtime);
  if (!owned.Has(id)) return Failed(EINVAL);
  // What is bound stays as it is.
  if (id->native->local().port != 0) return Failed(EINVAL);
  const absl::Status status =
      owned.manager().SetIpv6Only(id->native, id->family_only && family == AF_INET6);
  if (!status.ok()) return CmResult(status);
  if (IsLoopback(local.address)) local.address = InPlaceOfLoopback(owned, local.address);
  return CmResult(owned.manager().BindAddr(id->native, local));
}

}  // namespace

Context* OpenedCmContext() { return cm_context.load(std::memory_order_acquire); }

Context* CmContext() {
  // Before the mutex: who had that may not be in a copy.
  if (Runtime::IsCopy()) return nullptr;
  Context* context = OpenedCmContext();
  if (context != nullptr) return context;
  const std::lock_guard lock(context_mutex);
  context = OpenedCmContext();
  if (context == nullptr) cm_context.store(context = OpenContext(), std::memory_order_release);
  return context;
}

ibv_pd* CmDomain() {
  Context* context = CmContext();
  if (context == nullptr) return nullptr;
  ibv_pd* pd = cm_domain.load(std::memory_order_acquire);
  if (pd != nullptr) return pd;
  const std::lock_guard lock(context_mutex);
  pd = cm_domain.load(std::memory_order_acquire);
  if (pd == nullptr) {
    cm_domain.store(pd = pollux_ibv_alloc_pd(&context->context), std::memory_order_release);
  }
  return pd;
}

int CmResult(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? Failed(EINVAL) : ZeroOrErrno(status);
}

void FillAddresses(ScopedWorkerOwnership&, CmId* id) {
  const SocketAddress& peer = id->native->peer();
  const sa_family_t family = id->route.addr.src_addr.sa_family != 0
                                 ? id->route.addr.src_addr.sa_family
                                 : sa_family_t{AF_INET};
  const uint32_t scope = id->runtime->scope();
  ToSockaddr(id->native->local(), family, scope, &id->route.addr.src_storage);
  if (!peer.address.IsZero()) ToSockaddr(peer, family, scope, &id->route.addr.dst_storage);
  SetGids(id);
  if (!id->native->local().address.IsZero()) Attach(id);
}

void FillPath(ScopedWorkerOwnership& owned, CmId* id) {
  constexpr uint8_t kExactly = 2;  // of IB_SA_PATH_REC's selectors
  const cm::Manager::Path native = owned.manager().QueryPath(*id->native);
  const rdma_ib_addr& ib = id->route.addr.addr.ibaddr;
  ibv_sa_path_rec path{};
  path.sgid = ib.sgid;
  path.dgid = ib.dgid;
  path.pkey = ib.pkey;
  path.hop_limit = native.hop_limit;
  path.traffic_class = native.traffic_class;
  path.reversible = 1;
  path.numb_path = 1;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = static_cast<uint8_t>(native.mtu);
  path.rate = IBV_RATE_MAX;
  path.packet_life_time = native.packet_lifetime;
  // Whole, since another thread may look at the one from before.
  id->path = path;
  id->route.path_rec = &id->path;
  id->route.num_paths = 1;
}

POLLUX_EXPORT int pollux_rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                                        rdma_port_space port_space) {
  Context* device = CmContext();
  if (device == nullptr || CmDomain() == nullptr) return -1;
  const MemoryFor memory;
  if (!memory) return -1;
  auto made = std::make_unique<CmId>();
  if (channel == nullptr) {
    made->sync = std::make_shared<CmChannel>();
    made->sync->fd = made->sync->events.fd();
    if (made->sync->fd < 0) return Failed(EMFILE);
    channel = made->sync.get();
  }
  made->runtime = device->runtime;
  made->channel = channel;
  made->context = context;
  made->ps = port_space;
  made->qp_type = port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  ScopedWorkerOwnership owned(made->runtime);
  absl::StatusOr<cm::Id*> native = owned.manager().CreateId(port_space, HandlerFor(made.get()));
  if (!native.ok()) return CmResult(native.status());
  made->native = *native;
  owned.identifiers().insert(made.get());
  *id = made.release();
  return 0;
}

POLLUX_EXPORT int pollux_rdma_destroy_id(rdma_cm_id* id) {
  if (id == nullptr) return Failed(EINVAL);
  Destroy(Of(id));
  return 0;
}

POLLUX_EXPORT int pollux_rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  if (address == nullptr) return Failed(EINVAL);
  if (Runtime::IsCopy()) return -1;
  const std::optional<SocketAddress> local = ToEndpoint(address);
  if (!local) return Failed(EINVAL);
  if (!IsInReach(*Of(id), address)) return Failed(ENODEV);
  if (BindTo(Of(id), *local, address->sa_family) != 0) return -1;
  id->route.addr.src_addr.sa_family = address->sa_family;
  ScopedWorkerOwnership owned(Of(id)->runtime);
  FillAddresses(owned, Of(id));
  return 0;
}

POLLUX_EXPORT int pollux_rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                                           int timeout_ms) {
  if (destination == nullptr) return Failed(EINVAL);
  if (Runtime::IsCopy()) return -1;
  const std::optional<SocketAddress> peer = ToEndpoint(destination);
  if (!peer || peer->address.IsZero()) return Failed(EINVAL);
  if (!IsInReach(*Of(id), destination)) return Failed(ENODEV);
  // The source of an identifier that is bound already is not asked for, as in the kernel.
  const bool bound = id->route.addr.src_addr.sa_family != AF_UNSPEC;
  if (!bound && source != nullptr && source->sa_family != AF_UNSPEC) {
    const std::optional<SocketAddress> local = ToEndpoint(source);
    if (!local) return Failed(EINVAL);
    if (!IsInReach(*Of(id), source)) return Failed(ENODEV);
    if (BindTo(Of(id), *local, source->sa_family) != 0) return -1;
  }
  id->route.addr.src_addr.sa_family = destination->sa_family;
  {
    ScopedWorkerOwnership owned(Of(id)->runtime);
    if (!owned.Has(Of(id))) return Failed(EINVAL);
    // As Linux, where it is unsigned: a negative one is practically no limit.
    const absl::Status status =
        owned.manager().ResolveAddr(Of(id)->native, *peer, static_cast<uint32_t>(timeout_ms));
    // As routes are missed elsewhere.
    if (absl::IsNotFound(status)) return Failed(ENETUNREACH);
    if (!status.ok()) return CmResult(status);
    // As librdmacm: programs read it before the address is resolved, and if it is not.
    std::memcpy(&id->route.addr.dst_storage, destination, AddressLength(destination));
    owned.Poll();
  }
  return Complete(Of(id));
}

POLLUX_EXPORT int pollux_rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  if (Runtime::IsCopy()) return -1;
  {
    ScopedWorkerOwnership owned(Of(id)->runtime);
    const absl::Status status =
        owned.manager().ResolveRoute(Of(id)->native, static_cast<uint32_t>(timeout_ms));
    if (!status.ok()) return CmResult(status);
    owned.Poll();
  }
  return Complete(Of(id));
}

POLLUX_EXPORT int pollux_rdma_listen(rdma_cm_id* id, int backlog) {
  if (Runtime::IsCopy()) return -1;
  ScopedWorkerOwnership owned(Of(id)->runtime);
  if (!owned.Has(Of(id))) return Failed(EINVAL);
  const absl::Status status = owned.manager().Listen(Of(id)->native, Of(id)->native->local().port,
                                                     static_cast<uint32_t>(std::max(backlog, 0)));
  if (status.ok()) FillAddresses(owned, Of(id));
  return CmResult(status);
}

POLLUX_EXPORT int pollux_rdma_set_option(rdma_cm_id* id, int level, int name, void* value,
                                         size_t length) {
  if (value == nullptr) return Failed(EFAULT);
  if (Runtime::IsCopy()) return -1;
  if (level != RDMA_OPTION_ID) return Failed(ENOSYS);
  switch (name) {
    case RDMA_OPTION_ID_TOS: {
      if (length != 1) return Failed(EINVAL);
      ScopedWorkerOwnership owned(Of(id)->runtime);
      // As rdma_cm: who says it too late, for a connection that is asked for, is not told.
      owned.manager()
          .SetTypeOfService(Of(id)->native, *static_cast<const uint8_t*>(value))
          .IgnoreError();
      return 0;
    }
    case RDMA_OPTION_ID_REUSEADDR: {
      int reuse;
      if (length != sizeof reuse) return Failed(EINVAL);
      std::memcpy(&reuse, value, sizeof reuse);
      ScopedWorkerOwnership owned(Of(id)->runtime);
      return CmResult(owned.manager().SetReuseAddress(Of(id)->native, reuse != 0));
    }
    case RDMA_OPTION_ID_AFONLY: {
      int only;
      if (length != sizeof only) return Failed(EINVAL);
      std::memcpy(&only, value, sizeof only);
      ScopedWorkerOwnership owned(Of(id)->runtime);
      const bool ipv6 = id->route.addr.src_addr.sa_family == AF_INET6;
      const absl::Status set = owned.manager().SetIpv6Only(Of(id)->native, ipv6 && only != 0);
      if (set.ok()) Of(id)->family_only = only != 0;
      return CmResult(set);
    }
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (length != 1 || id->qp_type != IBV_QPT_RC) return Failed(EINVAL);
      Of(id)->ack_timeout = *static_cast<const uint8_t*>(value);
      return 0;
    default:
      return Failed(ENOSYS);
  }
}

POLLUX_EXPORT uint16_t pollux_rdma_get_src_port(rdma_cm_id* id) {
  const std::optional<SocketAddress> local = ToEndpoint(&id->route.addr.src_addr);
  return local ? htons(local->port) : 0;
}

POLLUX_EXPORT uint16_t pollux_rdma_get_dst_port(rdma_cm_id* id) {
  const std::optional<SocketAddress> peer = ToEndpoint(&id->route.addr.dst_addr);
  return peer ? htons(peer->port) : 0;
}

POLLUX_EXPORT ibv_context** pollux_rdma_get_devices(int* count) {
  Context* context = CmContext();
  if (count != nullptr) *count = context == nullptr ? 0 : 1;
  if (context == nullptr) return nullptr;
  auto** list = static_cast<ibv_context**>(std::calloc(2, sizeof(void*)));
  if (list != nullptr) list[0] = &context->context;
  return list;
}

POLLUX_EXPORT void pollux_rdma_free_devices(ibv_context** list) { std::free(list); }

}  // namespace pollux::compat
