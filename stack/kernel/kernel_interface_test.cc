#include "stack/kernel/kernel_interface.h"

#include <gtest/gtest.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "stack/base/fd.h"
#include "stack/io/own_network_for_test.h"
#include "stack/kernel/kernel_tap.h"
#include "stack/kernel/roce_udp_port.h"

namespace pollux::kernel {
namespace {

bool Shell(const std::string& command) {
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}
InterfaceAddress Own(const char* text) { return ParseInterfaceAddress(text).value(); }
Gid To(const char* text) { return ParseAddress(text).value(); }

// A veth pair in a network namespace of the test's own.
class KernelInterfaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to a network namespace";
    (void)Shell("ip link del kside");
    if (!Shell("ip link add kside address 02:00:00:00:00:05 type veth peer name kfar")) {
      GTEST_SKIP() << "needs the command ip and the right to make a veth pair";
    }
    ASSERT_TRUE(
        Shell("ip link set kside mtu 4400 up; ip link set kfar up; ip addr add 10.8.0.1/24 dev "
              "kside; ip addr add fd08::1/64 dev kside nodad"));
  }
  void TearDown() override { (void)Shell("ip link del kside"); }

  static std::unique_ptr<KernelInterface> Open() {
    auto opened = KernelInterface::Open("kside");
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  // Until it says that something has changed.
  static void AwaitChange(KernelInterface& kernel) {
    std::vector<ip::KernelNeighbour> found;
    while (!kernel.Poll(&found)) usleep(1000);
  }
  static ip::KernelNeighbour AwaitNeighbour(KernelInterface& kernel) {
    std::vector<ip::KernelNeighbour> found;
    while (found.empty()) {
      kernel.Poll(&found);
      usleep(1000);
    }
    return found.front();
  }
};

TEST_F(KernelInterfaceTest, ReadsAddressesAndRoutes) {
  ASSERT_TRUE(
      Shell("ip route add 10.77.0.0/16 via 10.8.0.254 dev kside metric 7 src 10.8.0.1; "
            "ip -6 route add default via fd08::fe dev kside; ip route add 10.66.0.0/16 dev lo; "
            "ip route add 10.88.0.0/16 nexthop dev lo nexthop via 10.8.0.253 dev kside; "
            "ip route add 10.99.0.0/16 via 10.8.0.254 dev kside; "
            "ip route add prohibit 10.99.1.0/24; ip -6 route add unreachable 2001:db8:1::/48; "
            "ip addr add fd08::5/128 dev kside nodad preferred_lft 0"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  const ip::KernelState& state = kernel->state();
  EXPECT_TRUE(state.up);
  EXPECT_EQ(state.mtu, 4400);
  EXPECT_EQ(state.qdisc, "noqueue");
  EXPECT_EQ(state.mac, (MacAddress{2, 0, 0, 0, 0, 5}));
  const auto has = [&](const InterfaceAddress& own) {
    return std::count(state.addresses.begin(), state.addresses.end(), own) == 1;
  };
  EXPECT_TRUE(has(Own("10.8.0.1/24")));
  EXPECT_TRUE(has(Own("fd08::1/64")));
  InterfaceAddress deprecated = Own("fd08::5/128");
  deprecated.deprecated = true;
  EXPECT_TRUE(has(deprecated));
  const ip::Routes routes(state.addresses, state.routes);
  EXPECT_EQ(*routes.Find(To("10.8.0.9")),
            (ip::Routes::Hop{To("10.8.0.9"), kNoVlan, To("10.8.0.1")}));
  EXPECT_EQ(*routes.Find(To("10.77.1.1")),
            (ip::Routes::Hop{To("10.8.0.254"), kNoVlan, To("10.8.0.1")}));
  EXPECT_EQ(*routes.Find(To("2001:db8::1")),
            (ip::Routes::Hop{To("fd08::fe"), kNoVlan, To("fd08::1")}));
  EXPECT_FALSE(routes.Find(To("10.66.0.1")).ok());  // by another interface
  EXPECT_TRUE(routes.Find(To("10.99.2.1")).ok());
  EXPECT_FALSE(routes.Find(To("10.99.1.1")).ok());
  EXPECT_FALSE(routes.Find(To("2001:db8:1::1")).ok());
  // By several, of which one is this.
  EXPECT_EQ(*routes.Find(To("10.88.1.1")),
            (ip::Routes::Hop{To("10.8.0.253"), kNoVlan, To("10.8.0.1")}));
}

TEST_F(KernelInterfaceTest, APrefixWithoutARouteIsNotOnTheLink) {
  ASSERT_TRUE(
      Shell("ip addr add fd09::1/64 dev kside nodad noprefixroute; "
            "ip addr add 10.9.0.1 peer 10.10.0.0/24 dev kside"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  const std::vector<InterfaceAddress>& addresses = kernel->state().addresses;
  for (const char* own : {"fd09::1/128", "10.9.0.1/32", "fd08::1/64", "10.8.0.1/24"}) {
    EXPECT_EQ(std::ranges::count(addresses, Own(own)), 1) << own;
  }
}

// By policy routing a host with several interfaces keeps the prefix of each in a table of its own.
TEST_F(KernelInterfaceTest, APrefixWithARouteInAnotherTableIsOnTheLink) {
  ASSERT_TRUE(
      Shell("ip addr add 10.9.0.1/24 dev kside noprefixroute; "
            "ip route add 10.9.0.0/24 dev kside table 101"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(std::ranges::count(kernel->state().addresses, Own("10.9.0.1/24")), 1);
}

TEST_F(KernelInterfaceTest, APrefixIsOnTheLinkAlsoBehindMoreRoutesThanAreKept) {
  ASSERT_TRUE(Shell(
      "ip addr add 172.16.0.1/24 dev kside; "
      "for i in $(seq 0 " +
      std::to_string(ip::Routes::kMaxRoutes) +
      "); do echo route add 10.64.$((i / 256)).$((i % 256))/32 via 10.8.0.9 dev kside; done | "
      "ip -batch -"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->state().routes.size(), ip::Routes::kMaxRoutes);
  EXPECT_EQ(std::ranges::count(kernel->state().addresses, Own("172.16.0.1/24")), 1);
}

TEST_F(KernelInterfaceTest, FollowsChanges) {
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  const ip::KernelState before = kernel->state();
  ASSERT_TRUE(Shell("ip addr add 10.8.1.1/24 dev kside"));
  while (std::ranges::find(kernel->state().addresses, Own("10.8.1.1/24")) ==
         kernel->state().addresses.end()) {
    AwaitChange(*kernel);
  }
  ASSERT_TRUE(Shell("ip addr del 10.8.1.1/24 dev kside"));
  while (std::ranges::find(kernel->state().addresses, Own("10.8.1.1/24")) !=
         kernel->state().addresses.end()) {
    AwaitChange(*kernel);
  }
  ASSERT_TRUE(Shell("ip link set kside mtu 1400"));
  while (kernel->state().mtu != 1400) AwaitChange(*kernel);
  ASSERT_TRUE(Shell("ip route add 10.55.0.0/16 via 10.8.0.7 dev kside"));
  const auto reachable = [&] {
    return ip::Routes(kernel->state().addresses, kernel->state().routes).Find(To("10.55.0.1")).ok();
  };
  EXPECT_FALSE(reachable());
  while (!reachable()) AwaitChange(*kernel);
}

// Places in the GID table do not change when the kernel has made sure of it.
TEST_F(KernelInterfaceTest, HasTheLinkLocalAddressFromTheStart) {
  ASSERT_TRUE(Shell("ip addr add fe80::7/64 dev kside"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(std::ranges::count(kernel->state().addresses, Own("fe80::7/64")), 1);
}

// As routing on the host has it (BGP unnumbered). Nobody on the link has the destination's address.
TEST_F(KernelInterfaceTest, ARouteViaAnIpv6GatewayIsNotOnLink) {
  ASSERT_TRUE(Shell("ip route add 10.99.0.0/16 via inet6 fe80::fe dev kside"));
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  const ip::KernelState& state = kernel->state();
  const auto hop = ip::Routes(state.addresses, state.routes).Find(To("10.99.0.1"));
  EXPECT_FALSE(hop.ok()) << FormatAddress(hop->address);
}

// More than one socket may join (net.ipv4.igmp_max_memberships, 20).
TEST_F(KernelInterfaceTest, JoinsMoreGroupsThanOneSocketMay) {
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  for (uint32_t i = 0; i < 64; ++i) {
    const absl::Status status = kernel->Join(Gid::FromIpv4(0xEF010200 + i));
    ASSERT_TRUE(status.ok()) << i << ": " << status;
  }
}

TEST_F(KernelInterfaceTest, ReportsKnownAndNewNeighbours) {
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  ASSERT_TRUE(Shell("ip neigh replace 10.8.0.5 lladdr 02:00:00:00:00:55 dev kside nud stale"));
  const ip::KernelNeighbour expected{To("10.8.0.5"), {2, 0, 0, 0, 0, 0x55}};
  EXPECT_EQ(AwaitNeighbour(*kernel), expected);  // as news
  kernel->Solicit(To("10.8.0.5"));
  EXPECT_EQ(AwaitNeighbour(*kernel), expected);  // as an answer
  // Asked for, the kernel begins to look for it, and says so when it is found.
  kernel->Solicit(To("fd08::6"));
  std::vector<ip::KernelNeighbour> found;
  kernel->Poll(&found);
  EXPECT_TRUE(found.empty());
  EXPECT_TRUE(Shell("ip -6 neigh show dev kside fd08::6 | grep -Eq 'INCOMPLETE|FAILED'"));
  ASSERT_TRUE(Shell("ip neigh replace fd08::6 lladdr 02:00:00:00:00:66 dev kside nud reachable"));
  EXPECT_EQ(AwaitNeighbour(*kernel), (ip::KernelNeighbour{To("fd08::6"), {2, 0, 0, 0, 0, 0x66}}));
}

TEST_F(KernelInterfaceTest, ReadsTheNeighboursAgainWhenNewsWereLost) {
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  ASSERT_TRUE(
      Shell("for i in $(seq 2000); do echo route add 10.200.$((i / 250)).$((i % 250))/32 via "
            "10.8.0.254 dev kside; done | ip -batch - && "
            "ip neigh replace 10.8.0.77 lladdr 02:00:00:00:00:77 dev kside nud reachable"));
  std::vector<ip::KernelNeighbour> found;
  kernel->Poll(&found);
  const ip::KernelNeighbour expected{To("10.8.0.77"), {2, 0, 0, 0, 0, 0x77}};
  EXPECT_TRUE(std::ranges::find(found, expected) != found.end());
}

TEST_F(KernelInterfaceTest, JoinsGroupsThroughTheKernel) {
  const auto kernel = Open();
  ASSERT_NE(kernel, nullptr);
  for (const char* group : {"225.1.2.3", "ff0e::1234"}) {
    ASSERT_TRUE(kernel->Join(To(group)).ok());
    const absl::Status again = kernel->Join(To(group));
    EXPECT_FALSE(again.ok());
    EXPECT_NE(again.message().find(group), std::string::npos) << again;
    EXPECT_TRUE(Shell(std::string("ip maddr show dev kside | grep -q ") + group));
    ASSERT_TRUE(kernel->Leave(To(group)).ok());
    EXPECT_FALSE(Shell(std::string("ip maddr show dev kside | grep -q ") + group));
    EXPECT_FALSE(kernel->Leave(To(group)).ok());
  }
}

TEST_F(KernelInterfaceTest, ADeletedTapIsGone) {
  const ip::InterfaceConfig config{.mac = {2, 0, 0, 0, 0, 9}, .mtu = 1400};
  auto tap = KernelTap::Make("ktap", config);
  ASSERT_TRUE(tap.ok()) << tap.status();
  ASSERT_TRUE(Shell("ip link del ktap"));
  const absl::Status status = (*tap)->CheckInterface();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("interface \"ktap\" is gone"), std::string::npos) << status;
}

TEST_F(KernelInterfaceTest, ATapHasTheConfigurationOfItsPort) {
  const ip::InterfaceConfig config{.mac = {2, 0, 0, 0, 0, 9},
                                   .addresses = {Own("10.9.0.1/24"), Own("fd09::1/64")},
                                   .gateways = {To("10.9.0.254"), To("fd09::fe")},
                                   .mtu = 1400};
  auto tap = KernelTap::Make("ktap", config);
  ASSERT_TRUE(tap.ok()) << tap.status();
  EXPECT_EQ(KernelTap::Make("ktap", config).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(KernelTap::Make("a-name-that-is-long", config).status().code(),
            absl::StatusCode::kInvalidArgument);
  ip::InterfaceConfig tagged = config;
  tagged.addresses[0].vlan = 5;
  EXPECT_EQ(KernelTap::Make("ktagged", tagged).status(),
            absl::InvalidArgumentError(
                "address 10.9.0.1/24,vlan=5: a kernel path does not support addresses in a VLAN; "
                "leave out the VLAN or the kernel path"));
  const auto kernel = KernelInterface::Open("ktap");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const ip::KernelState& state = (*kernel)->state();
  EXPECT_TRUE(state.up);
  EXPECT_EQ(state.mac, config.mac);
  EXPECT_EQ(state.mtu, config.mtu);
  for (const InterfaceAddress& own : config.addresses) {
    EXPECT_EQ(std::count(state.addresses.begin(), state.addresses.end(), own), 1)
        << FormatInterfaceAddress(own);
  }
  const ip::Routes routes(state.addresses, state.routes);
  EXPECT_EQ(routes.Find(To("9.9.9.9"))->address, To("10.9.0.254"));
  EXPECT_EQ(routes.Find(To("2001:db8::9"))->address, To("fd09::fe"));
  EXPECT_TRUE((*tap)->CheckInterface().ok());
  tap->reset();
  EXPECT_FALSE(Shell("ip link show ktap"));
}

TEST_F(KernelInterfaceTest, OnlyProgramsOfPolluxShareThePortOfAnInterface) {
  const auto kernel = Open();
  EXPECT_TRUE(KernelInterface::Open("kside").ok());
  // As Linux's soft-RoCE binds it.
  const Fd other(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(4791), .sin_addr = {}, .sin_zero = {}};
  const auto bind_other = [&] {
    return bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  EXPECT_NE(bind_other(), 0) << "beside Pollux";
  ASSERT_EQ(setsockopt(other.get(), SOL_SOCKET, SO_BINDTODEVICE, "kfar", 4), 0);
  ASSERT_EQ(bind_other(), 0);
  const absl::Status second = KernelInterface::Open("kfar").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists) << second;
  EXPECT_NE(second.message().find("4791"), std::string::npos) << second;
  const auto beside = KernelInterface::Open("kside", /*hold_port=*/false);
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ((*beside)->state(), kernel->state());
  EXPECT_EQ(KernelInterface::Open("knone").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(KernelInterfaceTest, AnotherProgramTakesTheRocePortOver) {
  auto first = RoceUdpPort::Hold("kside", if_nametoindex("kside"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)->is_bound());
  auto second = RoceUdpPort::Hold("kside", if_nametoindex("kside"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE((*second)->is_bound());
  (*second)->TakeOver();
  EXPECT_FALSE((*second)->is_bound());
  first->reset();
  (*second)->TakeOver();
  EXPECT_TRUE((*second)->is_bound());
}

TEST(NetlinkTest, MalformedAttributesEndTheWalk) {
  io::NetlinkRequest request(RTM_GETNEIGH, 0);
  const uint32_t value = 5;
  request.Attribute(1, &value, 4).Attribute(2, &value, 3);
  const auto* first = reinterpret_cast<const uint8_t*>(request.header()) + NLMSG_HDRLEN;
  std::vector<uint8_t> bytes(first, first + 16);
  const auto walk = [&](size_t length) {
    std::vector<std::pair<uint16_t, size_t>> seen;
    io::ForEachAttribute(bytes.data(), length, [&](uint16_t type, std::span<const uint8_t> value) {
      seen.emplace_back(type, value.size());
    });
    return seen;
  };
  using Seen = std::vector<std::pair<uint16_t, size_t>>;
  EXPECT_EQ(walk(16), (Seen{{1, 4}, {2, 3}}));
  EXPECT_EQ(walk(14), (Seen{{1, 4}}));
  EXPECT_EQ(walk(3), Seen{});
  bytes[8] = 2;  // shorter than its own header
  EXPECT_EQ(walk(16), (Seen{{1, 4}}));
  bytes[0] = 17;  // past the end
  EXPECT_EQ(walk(16), Seen{});
}

}  // namespace
}  // namespace pollux::kernel
