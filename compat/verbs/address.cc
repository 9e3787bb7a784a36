// Address handles, and the addresses of those from whom datagrams came.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "compat/loader/export.h"
#include "compat/process/log_once.h"
#include "compat/process/oom_reserve.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"
#include "compat/verbs/resolved_ah.h"

namespace pollux::compat {
namespace {

constexpr size_t kIpv4InGrh = 20;  // the header of an IPv4 datagram is at the end of the area

struct Addresses {
  Gid from, to;
  uint8_t traffic_class = 0;
};

Gid GidOf(const uint8_t* raw) {
  Gid gid;
  std::copy_n(raw, gid.raw.size(), gid.raw.begin());
  return gid;
}

// From the 40 bytes before a datagram; nothing when they are no header.
std::optional<Addresses> AddressesOf(const uint8_t* grh) {
  const uint8_t* ipv4 = grh + kIpv4InGrh;
  if (grh[0] >> 4 == 6) {
    const auto traffic_class = static_cast<uint8_t>(grh[0] << 4 | grh[1] >> 4);
    return Addresses{GidOf(grh + 8), GidOf(grh + 24), traffic_class};
  }
  if (ipv4[0] != 0x45) return std::nullopt;
  Addresses found{Gid::FromIpv4(0), Gid::FromIpv4(0), ipv4[1]};
  std::copy_n(ipv4 + 12, 4, found.from.raw.begin() + 12);
  std::copy_n(ipv4 + 16, 4, found.to.raw.begin() + 12);
  return found;
}

}  // namespace

POLLUX_EXPORT ibv_ah* pollux_ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (Runtime::IsCopy()) return nullptr;
  const MemoryFor memory;
  if (!memory) return nullptr;
  const absl::StatusOr<verbs::AddressHandle*> ah = CreateResolvedAh(Of(pd), *attr);
  if (!ah.ok()) {
    static LogOnce log_once;
    log_once(ah.status());
    Failed(ah.status());
    return nullptr;
  }
  (*ah)->context = pd->context;
  (*ah)->pd = pd;
  return *ah;
}

POLLUX_EXPORT int pollux_ibv_destroy_ah(ibv_ah* ah) {
  auto* native = static_cast<verbs::AddressHandle*>(ah);
  ScopedWorkerOwnership owned(Of(ah->context)->runtime);
  if (owned.deferred_ah_destroy().Waits(native)) return EINVAL;
  native->pd = reinterpret_cast<ibv_pd*>(Of(ah->pd)->native);
  return ErrorNumber(owned.deferred_ah_destroy().Destroy(owned.worker(), native));
}

POLLUX_EXPORT int pollux_ibv_init_ah_from_wc(ibv_context* context, uint8_t port_num, ibv_wc* wc,
                                             ibv_grh* grh, ibv_ah_attr* attr) {
  std::memset(attr, 0, sizeof *attr);
  if (port_num != 1 || (wc->wc_flags & IBV_WC_GRH) == 0) return Failed(EINVAL);
  const std::optional<Addresses> found = AddressesOf(reinterpret_cast<const uint8_t*>(grh));
  if (!found) return Failed(EINVAL);
  ScopedWorkerOwnership owned(Of(context)->runtime);
  const std::optional<uint8_t> own = found->to.IsMulticast()
                                         ? owned.interface().SourceIndex(found->from).value_or(0)
                                         : owned.interface().GidIndex(found->to);
  if (!own) return Failed(EINVAL);
  attr->is_global = 1;
  attr->port_num = port_num;
  std::copy(found->from.raw.begin(), found->from.raw.end(), attr->grh.dgid.raw);
  attr->grh.sgid_index = *own;
  attr->grh.hop_limit = 0xFF;
  attr->grh.traffic_class = found->traffic_class;
  return 0;
}

POLLUX_EXPORT ibv_ah* pollux_ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh,
                                                   uint8_t port_num) {
  ibv_ah_attr attr;
  if (pollux_ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return pollux_ibv_create_ah(pd, &attr);
}

}  // namespace pollux::compat
