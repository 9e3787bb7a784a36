// Names of states, statuses and rates.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compat/loader/export.h"

namespace pollux::compat {
namespace {

constexpr std::array kWcStatus = {"success",
                                  "local length error",
                                  "local QP operation error",
                                  "local EE context operation error",
                                  "local protection error",
                                  "Work Request Flushed Error",
                                  "memory management operation error",
                                  "bad response error",
                                  "local access error",
                                  "remote invalid request error",
                                  "remote access error",
                                  "remote operation error",
                                  "transport retry counter exceeded",
                                  "RNR retry counter exceeded",
                                  "local RDD violation error",
                                  "remote invalid RD request",
                                  "aborted error",
                                  "invalid EE context number",
                                  "invalid EE context state",
                                  "fatal error",
                                  "response timeout error",
                                  "general error",
                                  "TM error",
                                  "TM software rendezvous"};
static_assert(kWcStatus.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

// Of rdma-core 56, which returns a null pointer for the two unused values.
constexpr std::array kWrOpcode = {"rdma-write",
                                  "rdma-write-with-imm",
                                  "send",
                                  "send-with-imm",
                                  "rdma-read",
                                  "atomic-cmp-and-swp",
                                  "atomic-fetch-and-add",
                                  "local-inv",
                                  "bind-mw",
                                  "send-with-inv",
                                  "tso",
                                  "driver1",
                                  "unknown",
                                  "unknown",
                                  "flush",
                                  "atomic-write"};
static_assert(kWrOpcode.size() == IBV_WR_ATOMIC_WRITE + 1);

constexpr std::array kEvent = {"CQ error",
                               "local work queue catastrophic error",
                               "invalid request local work queue error",
                               "local access violation work queue error",
                               "communication established",
                               "send queue drained",
                               "path migrated",
                               "path migration request error",
                               "local catastrophic error",
                               "port active",
                               "port error",
                               "LID change",
                               "P_Key change",
                               "SM change",
                               "SRQ catastrophic error",
                               "SRQ limit reached",
                               "last WQE reached",
                               "client reregistration",
                               "GID table change",
                               "WQ fatal"};
static_assert(kEvent.size() == IBV_EVENT_WQ_FATAL + 1);

constexpr std::array kPortState = {"no state change (NOP)", "down", "init", "armed", "active",
                                   "active defer"};
static_assert(kPortState.size() == IBV_PORT_ACTIVE_DEFER + 1);

constexpr std::array kNodeType = {"unknown",           "InfiniBand channel adapter",
                                  "InfiniBand switch", "InfiniBand router",
                                  "iWARP NIC",         "usNIC",
                                  "usNIC UDP",         "unspecified"};
static_assert(kNodeType.size() == IBV_NODE_UNSPECIFIED + 1);

constexpr std::array kCmEvent = {"RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
                                 "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
                                 "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
                                 "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
                                 "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
                                 "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
                                 "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
                                 "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
static_assert(kCmEvent.size() == RDMA_CM_EVENT_TIMEWAIT_EXIT + 1);

template <size_t kCount>
const char* Name(const std::array<const char*, kCount>& names, int value,
                 const char* otherwise = "unknown") {
  return value >= 0 && static_cast<size_t>(value) < kCount ? names[static_cast<size_t>(value)]
                                                           : otherwise;
}

// Multiples of 2.5 Gb/s and Mb/s. Source: IB specification, PathRecord.Rate.
struct Rate {
  ibv_rate rate;
  int multiple, mbps;
};
constexpr Rate kRates[] = {{IBV_RATE_2_5_GBPS, 1, 2500},      {IBV_RATE_5_GBPS, 2, 5000},
                           {IBV_RATE_10_GBPS, 4, 10000},      {IBV_RATE_20_GBPS, 8, 20000},
                           {IBV_RATE_30_GBPS, 12, 30000},     {IBV_RATE_40_GBPS, 16, 40000},
                           {IBV_RATE_60_GBPS, 24, 60000},     {IBV_RATE_80_GBPS, 32, 80000},
                           {IBV_RATE_120_GBPS, 48, 120000},   {IBV_RATE_14_GBPS, -1, 14062},
                           {IBV_RATE_56_GBPS, -1, 56250},     {IBV_RATE_112_GBPS, -1, 112500},
                           {IBV_RATE_168_GBPS, -1, 168750},   {IBV_RATE_25_GBPS, -1, 25781},
                           {IBV_RATE_100_GBPS, -1, 103125},   {IBV_RATE_200_GBPS, -1, 206250},
                           {IBV_RATE_300_GBPS, -1, 309375},   {IBV_RATE_28_GBPS, 11, 28125},
                           {IBV_RATE_50_GBPS, 20, 53125},     {IBV_RATE_400_GBPS, 160, 425000},
                           {IBV_RATE_600_GBPS, 240, 637500},  {IBV_RATE_800_GBPS, 320, 850000},
                           {IBV_RATE_1200_GBPS, 480, 1275000}};

}  // namespace

POLLUX_EXPORT const char* pollux_ibv_wc_status_str(ibv_wc_status status) {
  return Name(kWcStatus, status);
}
POLLUX_EXPORT const char* pollux_ibv_wr_opcode_str(ibv_wr_opcode opcode) {
  return Name(kWrOpcode, opcode);
}
POLLUX_EXPORT const char* pollux_ibv_event_type_str(ibv_event_type event) {
  return Name(kEvent, event);
}
POLLUX_EXPORT const char* pollux_ibv_port_state_str(ibv_port_state state) {
  return Name(kPortState, state);
}
POLLUX_EXPORT const char* pollux_ibv_node_type_str(ibv_node_type type) {
  return Name(kNodeType, type);
}
POLLUX_EXPORT const char* pollux_rdma_event_str(rdma_cm_event_type event) {
  return Name(kCmEvent, event, "UNKNOWN EVENT");
}

POLLUX_EXPORT int pollux_ibv_rate_to_mult(ibv_rate rate) {
  const auto* found = std::find_if(std::begin(kRates), std::end(kRates),
                                   [rate](const Rate& known) { return known.rate == rate; });
  return found == std::end(kRates) ? -1 : found->multiple;
}
POLLUX_EXPORT ibv_rate pollux_mult_to_ibv_rate(int multiple) {
  const auto* found = std::find_if(
      std::begin(kRates), std::end(kRates),
      [multiple](const Rate& known) { return multiple > 0 && known.multiple == multiple; });
  return found == std::end(kRates) ? IBV_RATE_MAX : found->rate;
}
POLLUX_EXPORT int pollux_ibv_rate_to_mbps(ibv_rate rate) {
  const auto* found = std::find_if(std::begin(kRates), std::end(kRates),
                                   [rate](const Rate& known) { return known.rate == rate; });
  return found == std::end(kRates) ? -1 : found->mbps;
}
POLLUX_EXPORT ibv_rate pollux_mbps_to_ibv_rate(int mbps) {
  const auto* found = std::find_if(std::begin(kRates), std::end(kRates),
                                   [mbps](const Rate& known) { return known.mbps == mbps; });
  return found == std::end(kRates) ? IBV_RATE_MAX : found->rate;
}

}  // namespace pollux::compat
