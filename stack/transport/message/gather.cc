#include "stack/transport/message/gather.h"

#include <algorithm>

namespace pollux::transport {

bool Gather(verbs::QueuePair& qp, uint32_t index, uint32_t offset, uint32_t bytes,
            PacketBuilder& builder) {
  const verbs::SendWqe& wqe = qp.sq(index);
  if ((wqe.send_flags & IBV_SEND_INLINE) != 0) {
    if (bytes > 0) builder.Copy(qp.sq_inline(index) + offset, bytes);
    return true;
  }
  const memory::ProtectionDomain& pd = *qp.init().pd;
  const ibv_sge* sge = qp.sq_sge(index);
  const ibv_sge* const end = sge + wqe.num_sge;
  for (; bytes > 0 && sge != end; ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const uint32_t part = std::min(bytes, sge->length - offset);
    uint8_t* at;
    if (pd.regions->Check(pd, sge->lkey, sge->addr + offset, part, 0, &at) !=
        memory::AccessResult::kOk) {
      return false;
    }
    builder.Copy(at, part);
    bytes -= part;
    offset = 0;
  }
  return bytes == 0;
}

}  // namespace pollux::transport
