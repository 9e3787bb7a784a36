#include "stack/engine/objects/attributes.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "stack/engine/objects/multicast_groups.h"
#include "stack/verbs/limits.h"

namespace pollux::engine {
namespace {

constexpr uint32_t kTableLength = 1;      // one GID and one P_Key a port
constexpr uint32_t kNoVendor = 0xFFFFFF;  // no OUI of a vendor's, as of other software devices
constexpr uint8_t kCaAckDelay = 15;       // of the local ACK timeout; as rxe, 134 ms
constexpr uint8_t kPhysicalDisabled = 3;  // IB specification, PortInfo.PortPhysicalState
constexpr uint8_t kPhysicalLinkUp = 5;
constexpr uint8_t kMaxVl1 = 1;                      // PortInfo.VLCap
constexpr uint32_t kPortCapCmSupported = 1u << 16;  // PortInfo.CapabilityMask

// IB specification, PortInfo.LinkWidthActive and LinkSpeedActive: the lanes, and the rate of each.
constexpr uint8_t k1x = 1, k4x = 2;
constexpr uint8_t kSdr = 1, kDdr = 2, kFdr10 = 8, kEdr = 32, kHdr = 64, kNdr = 128;

struct ActiveLink {
  uint32_t up_to_mbps;
  uint8_t width, speed;
};
// Ethernet in those words: the least that carries its rate. What is not known is 0.
ActiveLink ActiveLinkOf(uint32_t mbps) {
  static constexpr ActiveLink kLinks[] = {{0, 0, 0},
                                          {1'000, k1x, kSdr},
                                          {10'000, k1x, kFdr10},
                                          {20'000, k4x, kDdr},
                                          {25'000, k1x, kEdr},
                                          {40'000, k4x, kFdr10},
                                          {50'000, k1x, kHdr},
                                          {100'000, k4x, kEdr},
                                          {200'000, k4x, kHdr},
                                          {UINT32_MAX, k4x, kNdr}};
  return *std::find_if(std::begin(kLinks), std::end(kLinks),
                       [mbps](const ActiveLink& link) { return mbps <= link.up_to_mbps; });
}

}  // namespace

ibv_device_attr DeviceAttributes(const DeviceLimits& limits) {
  ibv_device_attr attr{};
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "pollux");
  attr.max_mr_size = UINT64_MAX;
  attr.page_size_cap = 0xFFFFF000;  // regions need no alignment; what libibverbs expects to see
  attr.vendor_id = kNoVendor;
  attr.max_qp = static_cast<int>(limits.queue_pairs);
  attr.max_qp_wr = verbs::kMaxWorkRequests;
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SRQ_RESIZE |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS;
  attr.max_sge = verbs::kMaxSge;
  attr.max_sge_rd = verbs::kMaxSge;
  attr.max_cq = static_cast<int>(limits.objects);
  attr.max_cqe = verbs::kMaxCqEntries;
  attr.max_mr = static_cast<int>(limits.regions);
  attr.max_pd = static_cast<int>(limits.objects);
  attr.max_qp_rd_atom = verbs::kMaxRdAtomic;
  attr.max_res_rd_atom = static_cast<int>(verbs::kMaxRdAtomic * limits.queue_pairs);
  attr.max_qp_init_rd_atom = verbs::kMaxRdAtomic;
  attr.atomic_cap = IBV_ATOMIC_GLOB;  // atomic for every processor that shares the memory
  attr.max_mw = static_cast<int>(limits.regions);
  attr.max_mcast_grp = MulticastGroups::kMaxGroups;
  attr.max_mcast_qp_attach = MulticastGroups::kMaxMembers;
  attr.max_total_mcast_qp_attach = MulticastGroups::kMaxGroups * MulticastGroups::kMaxMembers;
  attr.max_ah = static_cast<int>(limits.objects);
  attr.max_srq = static_cast<int>(limits.objects);
  attr.max_srq_wr = verbs::kMaxWorkRequests;
  attr.max_srq_sge = verbs::kMaxSge;
  attr.max_pkeys = kTableLength;
  attr.local_ca_ack_delay = kCaAckDelay;
  attr.phys_port_cnt = limits.ports;
  return attr;
}

ibv_port_attr PortAttributes(const io::LinkState& link, ibv_mtu mtu) {
  const ActiveLink active = ActiveLinkOf(link.speed_mbps);
  ibv_port_attr attr{};
  attr.state = link.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = mtu;
  attr.gid_tbl_len = kTableLength;
  attr.port_cap_flags = kPortCapCmSupported;
  attr.max_msg_sz = static_cast<uint32_t>(verbs::kMaxMessage);
  attr.pkey_tbl_len = kTableLength;
  attr.max_vl_num = kMaxVl1;
  attr.active_width = active.width;
  attr.active_speed = active.speed;
  attr.phys_state = link.up ? kPhysicalLinkUp : kPhysicalDisabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  return attr;
}

void QueuePairAttributes(const verbs::QueuePair& qp, ibv_qp_attr* attr, ibv_qp_init_attr* init) {
  *attr = qp.attr;
  attr->cur_qp_state = qp.state();
  attr->cap = qp.init().cap;
  *init = ibv_qp_init_attr{};
  init->send_cq = reinterpret_cast<ibv_cq*>(qp.init().send_cq);
  init->recv_cq = reinterpret_cast<ibv_cq*>(qp.init().recv_cq);
  init->srq = reinterpret_cast<ibv_srq*>(qp.srq());
  init->cap = qp.init().cap;
  init->qp_type = qp.type();
  init->sq_sig_all = qp.init().sq_sig_all ? 1 : 0;
}

}  // namespace pollux::engine
