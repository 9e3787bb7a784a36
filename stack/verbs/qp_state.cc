#include "stack/verbs/qp_state.h"

#include <string>

#include "absl/strings/str_format.h"
#include "stack/base/types.h"
#include "stack/verbs/queue_pair.h"

namespace pollux::verbs {
namespace {

struct Transition {
  ibv_qp_state from, to;
  ibv_qp_type type;
  int required, optional;
};

constexpr int kAlways = IBV_QP_STATE | IBV_QP_CUR_STATE;
constexpr int kRtsOptional = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
// Of a drained send queue. The port stays: no IBV_DEVICE_CHANGE_PHY_PORT.
constexpr int kSqdOptional = IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_PKEY_INDEX | kRtsOptional;

constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_RC, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_UC, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_RC, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_UC, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_RC,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_UC,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_RC,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     kRtsOptional},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UC, IBV_QP_SQ_PSN, IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UD, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_RC, 0, kRtsOptional},
    {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_UC, 0, IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_UD, 0, IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPT_RC, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPT_UC, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPT_UD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_RC, 0, kSqdOptional},
    {IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_UC, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_RC, 0, kRtsOptional},
    {IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_UC, 0, IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_UD, 0, IBV_QP_QKEY},
    {IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPT_UC, 0, IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPT_UD, 0, IBV_QP_QKEY},
};

// Attributes that no transition needs checked together: their own range.
absl::Status CheckRanges(const ibv_qp_attr& change, int mask) {
  const struct {
    int bit;
    const char* name;
    uint32_t value, low, high;
  } kRanges[] = {
      {IBV_QP_PATH_MTU, "path_mtu", change.path_mtu, IBV_MTU_256, IBV_MTU_4096},
      {IBV_QP_PORT, "port_num", change.port_num, 1, 255},
      {IBV_QP_PKEY_INDEX, "pkey_index", change.pkey_index, 0, 0},
      {IBV_QP_DEST_QPN, "dest_qp_num", change.dest_qp_num, 0, 0xFFFFFF},
      {IBV_QP_RQ_PSN, "rq_psn", change.rq_psn, 0, Psn::kMask},
      {IBV_QP_SQ_PSN, "sq_psn", change.sq_psn, 0, Psn::kMask},
      {IBV_QP_TIMEOUT, "timeout", change.timeout, 0, 31},
      {IBV_QP_RETRY_CNT, "retry_cnt", change.retry_cnt, 0, 7},
      {IBV_QP_RNR_RETRY, "rnr_retry", change.rnr_retry, 0, 7},
      {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", change.min_rnr_timer, 0, 31},
      {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", change.max_rd_atomic, 0, kMaxRdAtomic},
      {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", change.max_dest_rd_atomic, 0, kMaxRdAtomic},
  };
  for (const auto& range : kRanges) {
    if ((mask & range.bit) != 0 && (range.value < range.low || range.value > range.high)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("modify queue pair: %s is %u; allowed are %u to %u", range.name,
                          range.value, range.low, range.high));
    }
  }
  return absl::OkStatus();
}

std::string MaskNames(int mask) {
  static constexpr struct {
    int bit;
    const char* name;
  } kNames[] = {{IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
                {IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
                {IBV_QP_PORT, "PORT"},
                {IBV_QP_QKEY, "QKEY"},
                {IBV_QP_AV, "AV"},
                {IBV_QP_PATH_MTU, "PATH_MTU"},
                {IBV_QP_TIMEOUT, "TIMEOUT"},
                {IBV_QP_RETRY_CNT, "RETRY_CNT"},
                {IBV_QP_RNR_RETRY, "RNR_RETRY"},
                {IBV_QP_RQ_PSN, "RQ_PSN"},
                {IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
                {IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
                {IBV_QP_SQ_PSN, "SQ_PSN"},
                {IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
                {IBV_QP_DEST_QPN, "DEST_QPN"},
                {IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"}};
  std::string names;
  for (const auto& entry : kNames) {
    if ((mask & entry.bit) == 0) continue;
    if (!names.empty()) names += "|";
    names += entry.name;
    mask &= ~entry.bit;
  }
  if (mask != 0) absl::StrAppendFormat(&names, "%s0x%x", names.empty() ? "" : "|", mask);
  return names;
}

}  // namespace

const char* QpStateName(ibv_qp_state state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<unsigned>(state);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

absl::Status CheckModify(ibv_qp_type type, ibv_qp_state from, const ibv_qp_attr& change, int mask) {
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? change.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && change.cur_qp_state != from) {
    return absl::InvalidArgumentError(
        absl::StrFormat("modify queue pair: cur_qp_state is %s, but the queue pair is in %s",
                        QpStateName(change.cur_qp_state), QpStateName(from)));
  }
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) {
    if (from == IBV_QPS_RESET && to == IBV_QPS_ERR) {
      return absl::InvalidArgumentError("modify queue pair: no transition from RESET to ERR");
    }
    if ((mask & ~kAlways) != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("modify queue pair: %s not allowed with the transition to %s",
                          MaskNames(mask & ~kAlways), QpStateName(to)));
    }
    return absl::OkStatus();
  }
  for (const Transition& transition : kTransitions) {
    if (transition.from != from || transition.to != to || transition.type != type) continue;
    if (const int missing = transition.required & ~mask; missing != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("modify queue pair: the transition from %s to %s needs %s as well",
                          QpStateName(from), QpStateName(to), MaskNames(missing)));
    }
    if (const int extra = mask & ~(transition.required | transition.optional | kAlways);
        extra != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("modify queue pair: %s not allowed with the transition from %s to %s",
                          MaskNames(extra), QpStateName(from), QpStateName(to)));
    }
    return CheckRanges(change, mask);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "modify queue pair: no transition from %s to %s", QpStateName(from), QpStateName(to)));
}

}  // namespace pollux::verbs
