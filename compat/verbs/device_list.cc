// The device list, opening and closing, and what a device says of itself.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "compat/loader/export.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/context.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"
#include "compat/verbs/recently_destroyed.h"

namespace pollux::compat {
namespace {

constexpr char kDeviceName[] = "pollux0";

DeviceRecord* MakeDevice() {
  auto* device = new DeviceRecord();
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device->name, sizeof device->name, "%s", kDeviceName);
  std::snprintf(device->dev_name, sizeof device->dev_name, "uverbs_%s", kDeviceName);
  return device;
}

// Not made at first use: a fork amid that would leave the child a guard that nobody gives back.
DeviceRecord* const the_device = MakeDevice();
auto* const recently_destroyed_contexts = new RecentlyDestroyed<Context>();

// The modified EUI-64 of the port's MAC. Source: RFC 4291 appendix A.
uint64_t DeviceGuid(Runtime* runtime) {
  ScopedWorkerOwnership owned(runtime);
  const MacAddress& mac = owned.interface().config().mac;
  const uint8_t guid[8] = {
      static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]};
  uint64_t network_order;
  std::memcpy(&network_order, guid, sizeof network_order);
  return network_order;
}

ibv_device_attr QueryDevice(Runtime* runtime) {
  ibv_device_attr attr;
  {
    ScopedWorkerOwnership owned(runtime);
    attr = owned.worker().QueryDevice();
  }
  attr.node_guid = attr.sys_image_guid = DeviceGuid(runtime);
  return attr;
}

// Programs that were compiled with an older and shorter structure get what it has room for.
template <class Attributes>
void CopyOut(const Attributes& from, void* to, size_t size) {
  std::memset(to, 0, size);
  std::memcpy(to, &from, std::min(size, sizeof from));
}

}  // namespace

Context* OpenContext() {
  const absl::StatusOr<Runtime*> runtime = Runtime::Get();
  if (!runtime.ok()) {
    Failed(ENODEV);
    return nullptr;
  }
  const MemoryFor memory;
  if (!memory) return nullptr;
  auto* context = new Context(*runtime);
  const int cmd_fd = fcntl((*runtime)->command_fd(), F_DUPFD_CLOEXEC, 0);
  if (context->async_events.fd() < 0 || cmd_fd < 0) {
    if (cmd_fd >= 0) close(cmd_fd);
    delete context;
    Failed(EMFILE);
    return nullptr;
  }
  context->sz = sizeof(verbs_context);
  context->query_port = QueryPort;
  context->query_device_ex = QueryDeviceEx;
  context->create_cq_ex = CreateCqEx;
  context->create_qp_ex = CreateQpEx;
  context->create_srq_ex = CreateSrqEx;
  ibv_context& verbs = context->context;
  verbs.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs.device = the_device;
  verbs.cmd_fd = cmd_fd;
  verbs.async_fd = context->async_events.fd();
  verbs.num_comp_vectors = 1;
  pthread_mutex_init(&verbs.mutex, nullptr);
  verbs.ops.alloc_mw = AllocMw;
  verbs.ops.bind_mw = BindMw;
  verbs.ops.dealloc_mw = DeallocMw;
  verbs.ops.poll_cq = PollCq;
  verbs.ops.req_notify_cq = ReqNotifyCq;
  verbs.ops.post_srq_recv = PostSrqRecv;
  verbs.ops.post_send = PostSend;
  verbs.ops.post_recv = PostRecv;
  ScopedWorkerOwnership owned(context->runtime);
  owned.port_link().Add(&context->async_events);
  return context;
}

int QueryPort(ibv_context* context, uint8_t port_num, ibv_port_attr* attr, size_t size) {
  absl::StatusOr<ibv_port_attr> queried;
  {
    ScopedWorkerOwnership owned(Of(context)->runtime);
    queried = owned.worker().QueryPort(port_num);
    if (!queried.ok()) return ErrorNumber(queried.status());
    owned.port_link().Show(&*queried);
    queried->gid_tbl_len = ip::GidTable::kMaxGids;
  }
  queried->flags = IBV_QPF_GRH_REQUIRED;
  CopyOut(*queried, attr, size);
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof attr->orig_attr) return EINVAL;
  ibv_device_attr_ex extended{};
  extended.orig_attr = QueryDevice(Of(context)->runtime);
  // The kernel's IB_UVERBS_DEVICE_FLUSH_GLOBAL and IB_UVERBS_DEVICE_ATOMIC_WRITE.
  constexpr uint64_t kFlushGlobal = uint64_t{1} << 38, kAtomicWrite = uint64_t{1} << 40;
  extended.device_cap_flags_ex = extended.orig_attr.device_cap_flags | kFlushGlobal | kAtomicWrite;
  extended.phys_port_cnt_ex = extended.orig_attr.phys_port_cnt;
  CopyOut(extended, attr, size);
  return 0;
}

POLLUX_EXPORT ibv_device** pollux_ibv_get_device_list(int* count) {
  const bool there = Runtime::Get().ok();
  // None is no error: a list without a device, as on a machine without one.
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(void*)));
  if (list != nullptr && there) list[0] = the_device;
  if (count != nullptr) *count = there ? 1 : 0;
  return list;
}

POLLUX_EXPORT void pollux_ibv_free_device_list(ibv_device** list) { std::free(list); }

POLLUX_EXPORT const char* pollux_ibv_get_device_name(ibv_device* device) { return device->name; }

// There is none of the kernel's.
POLLUX_EXPORT int pollux_ibv_get_device_index(ibv_device*) { return -1; }

POLLUX_EXPORT uint64_t pollux_ibv_get_device_guid(ibv_device*) {
  const absl::StatusOr<Runtime*> runtime = Runtime::Get();
  return runtime.ok() ? DeviceGuid(*runtime) : 0;
}

POLLUX_EXPORT ibv_context* pollux_ibv_open_device(ibv_device*) {
  Context* context = OpenContext();
  return context == nullptr ? nullptr : &context->context;
}

POLLUX_EXPORT int pollux_ibv_close_device(ibv_context* context) {
  close(std::exchange(context->cmd_fd, -1));
  {
    ScopedWorkerOwnership owned(Of(context)->runtime);
    owned.port_link().Remove(&Of(context)->async_events);
  }
  recently_destroyed_contexts->Put(std::unique_ptr<Context>(Of(context)));
  return 0;
}

POLLUX_EXPORT int pollux_ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = QueryDevice(Of(context)->runtime);
  return 0;
}

// For programs from before the calls of verbs_context; the structure ends with link_layer then.
POLLUX_EXPORT int pollux_ibv_query_port(ibv_context* context, uint8_t port_num, void* attr) {
  return QueryPort(context, port_num, static_cast<ibv_port_attr*>(attr),
                   offsetof(ibv_port_attr, link_layer));
}

POLLUX_EXPORT int pollux_ibv_query_gid(ibv_context* context, uint8_t port_num, int index,
                                       ibv_gid* gid) {
  if (port_num != 1) return Failed(EINVAL);
  ScopedWorkerOwnership owned(Of(context)->runtime);
  // A program that steps through the table meets empty places.
  if (index < 0 || static_cast<uint32_t>(index) >= ip::GidTable::kMaxGids) {
    return Failed(EINVAL);
  }
  const Gid found = owned.interface().QueryGid(index).value_or(Gid{});
  std::copy(found.raw.begin(), found.raw.end(), gid->raw);
  return 0;
}

POLLUX_EXPORT int pollux__ibv_query_gid_ex(ibv_context* context, uint32_t port_num, uint32_t index,
                                           ibv_gid_entry* entry, uint32_t flags, size_t size) {
  if (port_num != 1 || flags != 0 || size < sizeof *entry) return EINVAL;
  ScopedWorkerOwnership owned(Of(context)->runtime);
  const absl::StatusOr<ibv_gid_entry> found = owned.interface().QueryGidEx(index);
  if (!found.ok()) return index < ip::GidTable::kMaxGids ? ENODATA : EINVAL;
  *entry = *found;
  return 0;
}

POLLUX_EXPORT ssize_t pollux__ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                                  size_t max_entries, uint32_t flags, size_t size) {
  if (flags != 0 || size < sizeof *entries) return -EINVAL;
  ScopedWorkerOwnership owned(Of(context)->runtime);
  size_t count = 0;
  for (uint32_t i = 0; i < owned.interface().gid_table_size(); ++i) {
    const absl::StatusOr<ibv_gid_entry> found = owned.interface().QueryGidEx(i);
    if (!found.ok()) continue;
    if (count == max_entries) return -EINVAL;
    auto* at = reinterpret_cast<uint8_t*>(entries) + count++ * size;
    std::memcpy(at, &*found, sizeof *found);
  }
  return static_cast<ssize_t>(count);
}

// Of rdma-core's own: 1 is RoCE version 2.
POLLUX_EXPORT int pollux_ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned index,
                                            unsigned* type) {
  constexpr unsigned kRoceV2 = 1;
  ibv_gid_entry entry;
  const int error = pollux__ibv_query_gid_ex(context, port_num, index, &entry, 0, sizeof entry);
  if (error != 0) return Failed(error);
  *type = kRoceV2;
  return 0;
}

// The default partition is the only one that RoCE has.
POLLUX_EXPORT int pollux_ibv_query_pkey(ibv_context*, uint8_t port_num, int index, uint16_t* pkey) {
  if (port_num != 1 || index != 0) return Failed(EINVAL);
  *pkey = htobe16(0xFFFF);
  return 0;
}

POLLUX_EXPORT int pollux_ibv_get_pkey_index(ibv_context*, uint8_t port_num, uint16_t pkey) {
  if (port_num != 1 || pkey != htobe16(0xFFFF)) return Failed(EINVAL);
  return 0;
}

// The kernel knows nothing of this device.
POLLUX_EXPORT const char* pollux_ibv_get_sysfs_path() { return "/sys"; }

POLLUX_EXPORT int pollux_ibv_read_sysfs_file(const char*, const char*, char*, size_t) {
  return Failed(ENOENT);
}

// Registered memory stays the parent's: pages are not pinned, so there is nothing to keep from a
// child.
POLLUX_EXPORT int pollux_ibv_fork_init() { return 0; }
POLLUX_EXPORT int pollux_ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
POLLUX_EXPORT int pollux_ibv_dontfork_range(void*, size_t) { return 0; }
POLLUX_EXPORT int pollux_ibv_dofork_range(void*, size_t) { return 0; }

}  // namespace pollux::compat
