#include "stack/transport/message/scatter.h"

#include <algorithm>

namespace pollux::transport {

bool ScatterList(const memory::ProtectionDomain& pd, const ibv_sge* sge, int num_sge,
                 uint32_t offset, const uint8_t* source, uint32_t bytes) {
  const ibv_sge* const end = sge + num_sge;
  for (; bytes > 0 && sge != end; ++sge) {
    if (offset >= sge->length) {
      offset -= sge->length;
      continue;
    }
    const uint32_t part = std::min(bytes, sge->length - offset);
    uint8_t* at;
    if (pd.regions->Check(pd, sge->lkey, sge->addr + offset, part, IBV_ACCESS_LOCAL_WRITE, &at) !=
        memory::AccessResult::kOk) {
      return false;
    }
    std::memcpy(at, source, part);
    if (Planted(Fault::kOneByteBeyond)) at[part] ^= 0xFF;
    source += part;
    bytes -= part;
    offset = 0;
  }
  return bytes == 0;
}

}  // namespace pollux::transport
