// Memory regions and windows of a worker.
#include <cerrno>
#include <utility>

#include "stack/engine/loop/worker.h"
#include "stack/engine/loop/worker_parts.h"

namespace pollux::engine {

absl::StatusOr<memory::MemoryRegion> Worker::RegMr(memory::ProtectionDomain* pd, void* address,
                                                   uint64_t length, int access) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  return regions_.Register(pd, address, length, access);
}

absl::Status Worker::DeregMr(const memory::MemoryRegion& region) {
  return regions_.Deregister(region.key);
}

absl::StatusOr<memory::MemoryRegion> Worker::AllocFastMr(memory::ProtectionDomain* pd,
                                                         uint32_t capacity) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  return regions_.AllocFast(pd, capacity);
}

absl::StatusOr<memory::MemoryRegion> Worker::RegFastMr(memory::ProtectionDomain* pd, void* address,
                                                       uint32_t length, int access) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  return regions_.RegisterFast(pd, address, length, access);
}

absl::StatusOr<ibv_mw*> Worker::AllocMw(memory::ProtectionDomain* pd, ibv_mw_type type) {
  if (!IsOurs(pd)) return NotOurs("protection domain");
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("memory window of type %d: there are 1 and 2", type));
  }
  const absl::StatusOr<memory::MemoryRegion> window = regions_.AllocWindow(pd, type);
  if (!window.ok()) return window.status();
  auto mw = std::make_unique<ibv_mw>();
  mw->pd = reinterpret_cast<ibv_pd*>(pd);
  mw->rkey = window->key;
  mw->handle = window->key;
  mw->type = type;
  ibv_mw* raw = mw.get();
  mws_.emplace(raw, std::move(mw));
  return raw;
}

absl::Status Worker::DeallocMw(ibv_mw* mw) {
  if (!mws_.contains(mw)) return NotOurs("memory window");
  // The rkey is in the consumer's hands; the handle is the key it was made with.
  const absl::Status status = regions_.DeallocWindow(mw->handle);
  mws_.erase(mw);
  return status;
}

int Worker::BindMw(verbs::QueuePair* qp, ibv_mw* mw, const ibv_mw_bind& bind) {
  if (!mws_.contains(mw) || mw->type != IBV_MW_TYPE_1) return EINVAL;
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
