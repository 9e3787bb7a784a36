#include "stack/transport/message/local_operation.h"

namespace pollux::transport {

ibv_wc_status ExecuteLocal(const verbs::QueuePair& qp, const verbs::SendWqe& wqe) {
  const memory::ProtectionDomain& pd = *qp.init().pd;
  const memory::Mapping mapping{.key = wqe.rkey,
                                .region_key = wqe.region_key,
                                .address = wqe.memory.address,
                                .length = wqe.memory.length,
                                .iova = wqe.remote_address,
                                .access = static_cast<int>(wqe.memory_access)};
  bool done = false;
  switch (wqe.opcode) {
    case IBV_WR_LOCAL_INV:
      done = pd.regions->InvalidateLocal(pd, wqe.rkey);
      break;
    case IBV_WR_BIND_MW:
      done = pd.regions->Bind(pd, qp.qpn().value, mapping);
      break;
    case verbs::kWrRegMr:
      done = pd.regions->Map(pd, mapping);
      break;
    default:
      break;
  }
  return done ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

}  // namespace pollux::transport
