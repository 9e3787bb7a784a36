#include "stack/verbs/qp_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pollux::verbs {
namespace {

using ::testing::HasSubstr;

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

ibv_qp_attr To(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = 1;
  attr.path_mtu = IBV_MTU_1024;
  return attr;
}

TEST(QpStateTest, RcMovesFromResetToRts) {
  EXPECT_TRUE(CheckModify(IBV_QPT_RC, IBV_QPS_RESET, To(IBV_QPS_INIT), kInitMask).ok());
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_TRUE(CheckModify(IBV_QPT_RC, IBV_QPS_INIT, To(IBV_QPS_RTR), rtr).ok());
  const int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  EXPECT_TRUE(CheckModify(IBV_QPT_RC, IBV_QPS_RTR, To(IBV_QPS_RTS), rts).ok());
}

TEST(QpStateTest, UcAndUdMoveFromResetToRts) {
  constexpr int kUdInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  constexpr int kUcRtr =
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  EXPECT_TRUE(CheckModify(IBV_QPT_UC, IBV_QPS_RESET, To(IBV_QPS_INIT), kInitMask).ok());
  EXPECT_FALSE(CheckModify(IBV_QPT_UC, IBV_QPS_RESET, To(IBV_QPS_INIT), kUdInit).ok());
  EXPECT_TRUE(CheckModify(IBV_QPT_UD, IBV_QPS_RESET, To(IBV_QPS_INIT), kUdInit).ok());
  EXPECT_FALSE(CheckModify(IBV_QPT_UD, IBV_QPS_RESET, To(IBV_QPS_INIT), kInitMask).ok());
  EXPECT_TRUE(CheckModify(IBV_QPT_UC, IBV_QPS_INIT, To(IBV_QPS_RTR), kUcRtr).ok());
  EXPECT_FALSE(
      CheckModify(IBV_QPT_UC, IBV_QPS_INIT, To(IBV_QPS_RTR), kUcRtr | IBV_QP_MIN_RNR_TIMER).ok())
      << "of RC only";
  EXPECT_TRUE(CheckModify(IBV_QPT_UD, IBV_QPS_INIT, To(IBV_QPS_RTR), IBV_QP_STATE).ok());
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
    constexpr int kRts = IBV_QP_STATE | IBV_QP_SQ_PSN;
    EXPECT_TRUE(CheckModify(type, IBV_QPS_RTR, To(IBV_QPS_RTS), kRts).ok());
    EXPECT_FALSE(CheckModify(type, IBV_QPS_RTR, To(IBV_QPS_RTS), kRts | IBV_QP_TIMEOUT).ok());
    EXPECT_TRUE(CheckModify(type, IBV_QPS_SQE, To(IBV_QPS_RTS), IBV_QP_STATE).ok());
  }
  EXPECT_FALSE(CheckModify(IBV_QPT_RC, IBV_QPS_SQE, To(IBV_QPS_RTS), IBV_QP_STATE).ok())
      << "RC has no such state";
}

TEST(QpStateTest, AttributesThatMayChangeInSqd) {
  const auto allowed = [](ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
    return CheckModify(type, from, To(to), mask | IBV_QP_STATE).ok();
  };
  constexpr int kNotify = IBV_QP_EN_SQD_ASYNC_NOTIFY;
  constexpr int kRetries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  constexpr int kDepths = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    EXPECT_TRUE(allowed(type, IBV_QPS_RTS, IBV_QPS_SQD, kNotify));
    EXPECT_FALSE(allowed(type, IBV_QPS_RTR, IBV_QPS_SQD, 0));
    EXPECT_FALSE(allowed(type, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_SQ_PSN));
    EXPECT_FALSE(allowed(type, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_PORT));
    const bool rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;
    EXPECT_EQ(allowed(type, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_AV), !ud);
    EXPECT_EQ(allowed(type, IBV_QPS_SQD, IBV_QPS_SQD, kRetries | kDepths), rc);
    EXPECT_EQ(allowed(type, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS), !ud);
    EXPECT_EQ(allowed(type, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_QKEY), ud);
    EXPECT_FALSE(allowed(type, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_AV)) << "before, in SQD";
  }
}

// Every pair of states that the table does not hold is refused, whatever the mask.
TEST(QpStateTest, IllegalTransitionsAreRefused) {
  const struct {
    ibv_qp_state from, to;
  } kLegal[] = {{IBV_QPS_RESET, IBV_QPS_INIT}, {IBV_QPS_INIT, IBV_QPS_INIT},
                {IBV_QPS_INIT, IBV_QPS_RTR},   {IBV_QPS_RTR, IBV_QPS_RTS},
                {IBV_QPS_RTS, IBV_QPS_RTS},    {IBV_QPS_RTS, IBV_QPS_SQD},
                {IBV_QPS_SQD, IBV_QPS_SQD},    {IBV_QPS_SQD, IBV_QPS_RTS}};
  for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
    for (int to = IBV_QPS_INIT; to <= IBV_QPS_SQE; ++to) {
      bool legal = false;
      for (const auto& pair : kLegal) legal |= pair.from == from && pair.to == to;
      if (legal) continue;
      const absl::Status status = CheckModify(IBV_QPT_RC, static_cast<ibv_qp_state>(from),
                                              To(static_cast<ibv_qp_state>(to)), IBV_QP_STATE);
      EXPECT_THAT(std::string(status.message()), HasSubstr("no transition"))
          << QpStateName(static_cast<ibv_qp_state>(from)) << " to "
          << QpStateName(static_cast<ibv_qp_state>(to));
    }
  }
}

TEST(QpStateTest, ErrAndResetAreReachableFromEveryState) {
  for (int from = IBV_QPS_INIT; from <= IBV_QPS_ERR; ++from) {
    const auto state = static_cast<ibv_qp_state>(from);
    EXPECT_TRUE(CheckModify(IBV_QPT_RC, state, To(IBV_QPS_ERR), IBV_QP_STATE).ok());
    EXPECT_TRUE(CheckModify(IBV_QPT_RC, state, To(IBV_QPS_RESET), IBV_QP_STATE).ok());
  }
  EXPECT_FALSE(CheckModify(IBV_QPT_RC, IBV_QPS_RESET, To(IBV_QPS_ERR), IBV_QP_STATE).ok());
}

TEST(QpStateTest, ErrorsNameMissingAndForbiddenAttributes) {
  EXPECT_THAT(
      std::string(CheckModify(IBV_QPT_RC, IBV_QPS_RESET, To(IBV_QPS_INIT), kInitMask & ~IBV_QP_PORT)
                      .message()),
      HasSubstr("needs PORT"));
  EXPECT_THAT(std::string(CheckModify(IBV_QPT_RC, IBV_QPS_RESET, To(IBV_QPS_INIT),
                                      kInitMask | IBV_QP_SQ_PSN)
                              .message()),
              HasSubstr("SQ_PSN not allowed"));
  EXPECT_THAT(std::string(CheckModify(IBV_QPT_RC, IBV_QPS_ERR, To(IBV_QPS_RESET),
                                      IBV_QP_STATE | IBV_QP_QKEY)
                              .message()),
              HasSubstr("QKEY not allowed"));
}

TEST(QpStateTest, AttributesOutOfRangeAreRefused) {
  ibv_qp_attr attr = To(IBV_QPS_RTS);
  const int mask = IBV_QP_MIN_RNR_TIMER;
  attr.min_rnr_timer = 31;
  EXPECT_TRUE(CheckModify(IBV_QPT_RC, IBV_QPS_RTS, attr, mask).ok());
  attr.min_rnr_timer = 32;
  EXPECT_THAT(std::string(CheckModify(IBV_QPT_RC, IBV_QPS_RTS, attr, mask).message()),
              HasSubstr("min_rnr_timer is 32; allowed are 0 to 31"));
}

TEST(QpStateTest, CurQpStateMustMatch) {
  ibv_qp_attr attr = To(IBV_QPS_RTS);
  attr.cur_qp_state = IBV_QPS_RTR;
  EXPECT_FALSE(CheckModify(IBV_QPT_RC, IBV_QPS_RTS, attr, IBV_QP_CUR_STATE).ok());
}

}  // namespace
}  // namespace pollux::verbs
