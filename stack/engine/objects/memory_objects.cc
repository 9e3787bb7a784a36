#include "stack/engine/objects/memory_objects.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

namespace pollux::engine {

absl::StatusOr<memory::ProtectionDomain*> MemoryObjects::AllocPd() {
  if (absl::Status status = domains_.CheckRoom(); !status.ok()) return status;
  auto pd = std::make_unique<memory::ProtectionDomain>();
  pd->regions = &regions_;
  pd->handle = next_domain_handle_++;
  return domains_.Add(std::move(pd));
}

absl::Status MemoryObjects::DeallocPd(memory::ProtectionDomain* pd) {
  if (absl::Status status = domains_.CheckContains(pd); !status.ok()) return status;
  if (pd->use_count != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "protection domain %u still has %u users (regions, queue pairs, address handles); destroy "
        "them first",
        pd->handle, pd->use_count));
  }
  domains_.Take(pd);
  return absl::OkStatus();
}

absl::StatusOr<memory::MemoryRegion> MemoryObjects::RegMr(memory::ProtectionDomain* pd,
                                                          void* address, uint64_t length,
                                                          int access) {
  if (!Owns(pd)) return NotOurs("protection domain");
  return regions_.Register(pd, address, length, access);
}

absl::Status MemoryObjects::DeregMr(const memory::MemoryRegion& region) {
  return regions_.Deregister(region.key);
}

absl::StatusOr<memory::MemoryRegion> MemoryObjects::AllocFastMr(memory::ProtectionDomain* pd,
                                                                uint32_t capacity) {
  if (!Owns(pd)) return NotOurs("protection domain");
  return regions_.AllocFast(pd, capacity);
}

absl::StatusOr<memory::MemoryRegion> MemoryObjects::RegFastMr(memory::ProtectionDomain* pd,
                                                              void* address, uint32_t length,
                                                              int access) {
  if (!Owns(pd)) return NotOurs("protection domain");
  return regions_.RegisterFast(pd, address, length, access);
}

absl::StatusOr<ibv_mw*> MemoryObjects::AllocMw(memory::ProtectionDomain* pd, ibv_mw_type type) {
  if (!Owns(pd)) return NotOurs("protection domain");
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory window of type %d: only types 1 and 2 exist", type));
  }
  const absl::StatusOr<memory::MemoryRegion> window = regions_.AllocWindow(pd, type);
  if (!window.ok()) return window.status();
  auto mw = std::make_unique<ibv_mw>();
  mw->pd = reinterpret_cast<ibv_pd*>(pd);
  mw->rkey = window->key;
  mw->handle = window->key;
  mw->type = type;
  return windows_.Add(std::move(mw));
}

absl::Status MemoryObjects::DeallocMw(ibv_mw* mw) {
  if (absl::Status status = windows_.CheckContains(mw); !status.ok()) return status;
  // The rkey is in the consumer's hands; the handle is the key it was made with.
  const std::unique_ptr<ibv_mw> taken = windows_.Take(mw);
  return regions_.DeallocWindow(taken->handle);
}

int MemoryObjects::BindMw(verbs::QueuePair* qp, ibv_mw* mw, const ibv_mw_bind& bind) {
  if (!windows_.contains(mw) || mw->type != IBV_MW_TYPE_1) return EINVAL;
  ibv_send_wr wr{};
  wr.wr_id = bind.wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind.send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = (mw->rkey & ~0xFFu) | ((mw->rkey + 1) & 0xFF);
  wr.bind_mw.bind_info = bind.bind_info;
  const int error = qp->PostSend(&wr, nullptr);
  if (error == 0) mw->rkey = wr.bind_mw.rkey;
  return error;
}

}  // namespace pollux::engine
