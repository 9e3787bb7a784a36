#include "stack/io/steering/qpn_steering.h"

#include <gtest/gtest.h>

#include "stack/io/eal_for_test.h"
#include "stack/io/port/port.h"

namespace pollux::io {
namespace {

// Refuses after so many rules.
class FakeSteering : public QpnSteering {
 public:
  explicit FakeSteering(size_t most) : most_(most) {}
  absl::Status Direct(uint32_t prefix, uint8_t bits, uint16_t queue) override {
    if (rules.size() == most_) return absl::UnimplementedError("no more");
    EXPECT_EQ(bits, 4);
    EXPECT_EQ(prefix, queue);
    rules.push_back(queue);
    return absl::OkStatus();
  }
  void Clear() override { rules.clear(); }
  std::vector<uint16_t> rules;

 private:
  size_t most_;
};

TEST(QpnSteeringTest, RulesAreInstalledForAllQueuesOrNone) {
  FakeSteering able(3);
  EXPECT_TRUE(SteerWorkersToQueues(able, 4, 3).ok());
  EXPECT_EQ(able.rules, (std::vector<uint16_t>{0, 1, 2}));
  FakeSteering short_of_rules(2);
  EXPECT_EQ(SteerWorkersToQueues(short_of_rules, 4, 3).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(short_of_rules.rules.empty());
}

TEST(QpnSteeringTest, ADriverWithoutFlowRulesIsUnimplemented) {
  absl::StatusOr<std::unique_ptr<Port>> port =
      Port::Open({.devargs = "net_null7", .pools = {PoolForTest()}});
  ASSERT_TRUE(port.ok()) << port.status();
  FlowQpnSteering steering((*port)->id());
  const absl::Status status = steering.Direct(1, 4, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("queue pair number"), std::string::npos) << status;
  steering.Clear();
}

}  // namespace
}  // namespace pollux::io
