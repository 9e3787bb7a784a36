#include "cm/connection/flight_text.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "cm/wire/mad.h"
#include "cm/wire/reasons.h"

namespace pollux::cm {
namespace {

TEST(CmFlightTextTest, EntriesAreFormattedAsText) {
  EXPECT_EQ(FlightText({.kind = kFlightMadSent, .code = static_cast<uint8_t>(Attribute::kReq)}),
            "-> CM REQ");
  EXPECT_EQ(FlightText({.kind = kFlightMadReceived,
                        .code = static_cast<uint8_t>(Attribute::kRej),
                        .detail = static_cast<uint16_t>(RejectReason::kStaleConnection)}),
            "<- CM REJ, stale connection");
  EXPECT_EQ(FlightText({.kind = kFlightEvent, .code = RDMA_CM_EVENT_ESTABLISHED}),
            "RDMA_CM_EVENT_ESTABLISHED");
  EXPECT_EQ(FlightText({.kind = kFlightEvent, .code = RDMA_CM_EVENT_UNREACHABLE, .detail = 110}),
            "RDMA_CM_EVENT_UNREACHABLE, status 110");
  EXPECT_EQ(FlightText({.kind = transport::FlightKind::kQpState, .code = IBV_QPS_ERR}),
            "queue pair: ERR");
}

}  // namespace
}  // namespace pollux::cm
