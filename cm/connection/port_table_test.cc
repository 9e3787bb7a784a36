#include "cm/connection/port_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace pollux::cm {
namespace {

constexpr Gid kAny{};
constexpr Gid kFirstGid = Gid::FromIpv4(0xC0000201);
constexpr Gid kSecondGid = Gid::FromIpv4(0xC0000202);
constexpr Gid kIpv6{{0xFD, 1}};

class PortTableTest : public testing::Test {
 protected:
  CmConnection& New(rdma_port_space port_space = RDMA_PS_TCP) {
    made_.push_back(std::make_unique<CmConnection>(nullptr));
    made_.back()->set_port_space(port_space);
    made_.back()->state = State::kListen;
    return *made_.back();
  }

  PortTable table;

 private:
  std::vector<std::unique_ptr<CmConnection>> made_;
};

TEST_F(PortTableTest, ABoundPortConflictsWithItsAddressAndTheWildcard) {
  EXPECT_TRUE(table.Bind(New(), {kFirstGid, 7}));
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7}));
  EXPECT_FALSE(table.Bind(New(), {kAny, 7}));
  EXPECT_TRUE(table.Bind(New(), {kSecondGid, 7}));
  CmConnection& any = New();
  EXPECT_TRUE(table.Bind(any, {kAny, 8}));
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 8}));
  EXPECT_FALSE(table.Bind(New(), {kAny, 8}));
  table.Release(any);
  EXPECT_TRUE(table.Bind(New(), {kFirstGid, 8}));
}

TEST_F(PortTableTest, APortForIpv6OnlyLeavesIpv4ToOthers) {
  CmConnection& ipv6 = New();
  ipv6.ipv6_only = true;
  CmConnection& any = New();
  ASSERT_TRUE(table.Bind(ipv6, {kAny, 7}));
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), nullptr);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kIpv6), &ipv6);
  EXPECT_FALSE(table.Bind(New(), {kIpv6, 7}));
  ASSERT_TRUE(table.Bind(any, {kAny, 7}));
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &any);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kIpv6), &ipv6);
  CmConnection& second = New();
  second.ipv6_only = true;
  EXPECT_FALSE(table.Bind(second, {kAny, 7}));
  EXPECT_FALSE(table.Bind(New(), {kAny, 7}));
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7}));
  table.Release(any);
  CmConnection& first = New();
  ASSERT_TRUE(table.Bind(first, {kFirstGid, 7}));
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &first);
  // The other way round.
  ASSERT_TRUE(table.Bind(New(), {kFirstGid, 8}));
  EXPECT_TRUE(table.Bind(second, {kAny, 8}));
}

TEST_F(PortTableTest, APortIsSharedWithReuseaddrWhileNobodyListens) {
  CmConnection& first = New();
  CmConnection& second = New();
  for (CmConnection* connection : {&first, &second}) {
    connection->state = State::kIdle;
    connection->reuses_address = true;
    ASSERT_TRUE(table.Bind(*connection, {kFirstGid, 7}));
  }
  EXPECT_FALSE(table.IsAlone(first));
  EXPECT_FALSE(table.Bind(New(), {kFirstGid, 7})) << "it does not say so";
  table.Release(second);
  EXPECT_TRUE(table.IsAlone(first));
  first.state = State::kListen;
  EXPECT_FALSE(table.Bind(second, {kFirstGid, 7}));
  EXPECT_FALSE(table.Bind(second, {kAny, 7}));
  EXPECT_TRUE(table.Bind(second, {kSecondGid, 7}));
  EXPECT_TRUE(table.IsAlone(second));
}

TEST_F(PortTableTest, PortSpacesAreIndependent) {
  CmConnection& tcp = New(RDMA_PS_TCP);
  CmConnection& udp = New(RDMA_PS_UDP);
  CmConnection& ib = New(RDMA_PS_IB);
  EXPECT_TRUE(table.Bind(tcp, {kAny, 7}));
  EXPECT_TRUE(table.Bind(udp, {kAny, 7}));
  EXPECT_TRUE(table.Bind(ib, {kAny, 7}));
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &tcp);
  EXPECT_EQ(table.FindListener({RDMA_PS_UDP, 7}, kFirstGid), &udp);
  EXPECT_EQ(table.FindListener({RDMA_PS_IB, 7}, kFirstGid), &ib);
  EXPECT_EQ(table.FindListener({RDMA_PS_IB, 8}, kFirstGid), nullptr);
}

TEST_F(PortTableTest, ListenersAreFoundByAddress) {
  CmConnection& first = New();
  ASSERT_TRUE(table.Bind(first, {kFirstGid, 7}));
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), &first);
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kSecondGid), nullptr);
  first.state = State::kIdle;  // bound, and does not listen
  EXPECT_EQ(table.FindListener({RDMA_PS_TCP, 7}, kFirstGid), nullptr);
}

TEST_F(PortTableTest, EveryEphemeralPortIsFoundOnce) {
  Random random(1);
  std::vector<bool> seen(65536);
  CmConnection* last = nullptr;
  for (uint32_t i = 0; i < PortTable::kEphemerals; ++i) {
    last = &New();
    last->state = State::kIdle;
    last->reuses_address = true;  // which says nothing of ports that are chosen
    ASSERT_TRUE(table.BindEphemeral(*last, kAny, random));
    const uint16_t port = last->local().port;
    EXPECT_GE(port, PortTable::kFirstEphemeral);
    EXPECT_FALSE(seen[port]);
    seen[port] = true;
  }
  EXPECT_FALSE(table.BindEphemeral(New(), kAny, random));
  EXPECT_TRUE(table.BindEphemeral(New(RDMA_PS_UDP), kAny, random));
  table.Release(*last);
  table.Release(*last);  // nothing is left to give up
  EXPECT_TRUE(table.BindEphemeral(New(), kAny, random));
  EXPECT_EQ(table.size(), PortTable::kEphemerals + 1);
}

}  // namespace
}  // namespace pollux::cm
