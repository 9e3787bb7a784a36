// Ports joined to the kernel of this machine: a packet socket on a veth, and a tap. Runs in a
// network namespace of its own (tag block-network).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_mbuf.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "stack/base/eventually_for_test.h"
#include "stack/base/fd.h"
#include "stack/io/eal_for_test.h"
#include "stack/io/link/impairment.h"
#include "stack/io/own_network_for_test.h"
#include "stack/io/port/port.h"
#include "stack/ip/interface.h"

namespace pollux::kernel {
namespace {

constexpr uint32_t kOurs = 10u << 24 | 9 << 16 | 2;    // 10.9.0.2
constexpr uint32_t kKernel = 10u << 24 | 9 << 16 | 1;  // 10.9.0.1

bool Shell(const std::string& command) { return std::system((command + " >&2").c_str()) == 0; }

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// The part of a worker that an interface needs.
class Host {
 public:
  Host(io::Link* link, const io::Port& port)
      : link_(link),
        egress_(link, io::PoolForTest(), &counters),
        interface(
            {.mac = port.mac(), .addresses = {InterfaceAddress::Ipv4(kOurs)}, .mtu = port.mtu()}) {}

  transport::PollContext Context() {
    return {.now_ns = NowNs(),
            .egress = egress_,
            .counters = counters,
            .random = random_,
            .resolver = &interface};
  }
  void Poll() {
    transport::PollContext context = Context();
    std::array<rte_mbuf*, 32> frames;
    const uint16_t count = link_->Receive(frames.data(), frames.size(), context.now_ns);
    for (uint16_t i = 0; i < count; ++i) interface.OnFrame(frames[i], context);
    if (interface.deadline_ns() <= context.now_ns) interface.OnDeadline(context);
    egress_.Flush(context.now_ns);
    if (count == 0) usleep(50);
  }
  // Polls while the shell runs `command`; whether it ended with 0.
  bool PollWhile(const std::string& command) {
    std::atomic<bool> done = false;
    bool ok = false;
    std::thread shell([&] {
      ok = Shell(command);
      done = true;
    });
    while (!done) Poll();
    shell.join();
    return ok;
  }
  absl::Status Resolve(uint32_t address) {
    std::optional<absl::Status> result;
    transport::PollContext context = Context();
    interface.Resolve(Gid::FromIpv4(address), context,
                      [&result](absl::Status status) { result = status; });
    while (!result) Poll();
    return *result;
  }

 private:
  io::Link* link_;

 public:
  transport::Counters counters;

 private:
  transport::Egress egress_;
  Random random_{uint64_t{1}};

 public:
  ip::Interface interface;
};

// All queues of a port as one: it receives from each in turn, and sends on the last.
class AllQueues : public io::Link {
 public:
  explicit AllQueues(io::Port* port) : port_(port) {}
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override {
    turn_ = static_cast<uint16_t>((turn_ + 1) % port_->queues());
    return port_->queue(turn_).Receive(frames, capacity, now_ns);
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override {
    return port_->queue(static_cast<uint16_t>(port_->queues() - 1)).Send(frames, count, now_ns);
  }

 private:
  io::Port* port_;
  uint16_t turn_ = 0;
};

class PortKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to a network namespace";
    if (!Shell("command -v ip && command -v ping"))
      GTEST_SKIP() << "needs the commands ip and ping";
  }
};

// Of this thread.
bool SetCapability(unsigned bit, bool on) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  uint32_t& effective = sets[bit / 32].effective;
  const uint32_t mask = 1u << bit % 32;
  effective = on ? effective | mask : effective & ~mask;
  return syscall(SYS_capset, &header, sets) == 0;
}

// An interface without a peer, which exists where a veth cannot.
class InterfaceTest : public PortKernelTest {
 protected:
  void SetUp() override {
    PortKernelTest::SetUp();
    if (IsSkipped()) return;
    if (!Shell("ip tuntap add dev plxown mode tap"))
      GTEST_SKIP() << "needs the right to make a tap";
    ASSERT_TRUE(Shell("ip link set plxown up"));
  }
  void TearDown() override { (void)Shell("ip link del plxown 2>/dev/null"); }
  static io::PortOptions Options() {
    return {.devargs = "net_af_packet0,iface=plxown", .pools = {io::PoolForTest()}};
  }
};

TEST_F(InterfaceTest, KeepsItsNeighboursWhenAPortOpens) {
  ASSERT_TRUE(
      Shell("ip neigh add 10.9.0.77 lladdr 02:00:00:00:00:09 nud permanent dev plxown && "
            "ip neigh add fe80::77 lladdr 02:00:00:00:00:09 nud permanent dev plxown"));
  for (const bool promiscuous : {false, true}) {
    io::PortOptions options = Options();
    options.promiscuous = promiscuous;
    absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
    ASSERT_TRUE(port.ok()) << port.status();
    for (const char* family : {"-4", "-6"}) {
      EXPECT_TRUE(Shell(std::string("ip ") + family +
                        " neigh show dev plxown | grep 02:00:00:00:00:09 | grep PERMANENT"))
          << family;
    }
  }
}

TEST_F(InterfaceTest, APortOpensWhateverTheLimitOfLockedMemory) {
  (void)io::PoolForTest();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit least{.rlim_cur = 65536, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &least), 0);
  EXPECT_TRUE(SetCapability(CAP_IPC_LOCK, false));
  const absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  EXPECT_TRUE(port.ok()) << port.status();
  (void)SetCapability(CAP_IPC_LOCK, true);  // which it may never have been
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST_F(InterfaceTest, IsPromiscuousOnlyWhileAPortIsOpen) {
  const auto has = [](const char* what) {
    return Shell(std::string("ip -d link show plxown | grep '") + what + "'");
  };
  for (const char* driver : {"net_af_packet0", "net_af_xdp0"}) {
    SCOPED_TRACE(driver);
    io::PortOptions options = Options();
    options.devargs = std::string(driver) + ",iface=plxown";
    absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
    if (absl::IsInternal(port.status()) && driver == std::string("net_af_xdp0")) continue;
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_TRUE(has("promiscuity 1"));
    EXPECT_FALSE(has("PROMISC"));
    (*port)->Close();
    EXPECT_TRUE(has("promiscuity 0"));
  }
}

TEST_F(InterfaceTest, StaysPromiscuousIfItWas) {
  ASSERT_TRUE(Shell("ip link set plxown promisc on"));
  for (const bool promiscuous : {false, true}) {
    io::PortOptions options = Options();
    options.promiscuous = promiscuous;
    absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_TRUE(Shell("ip link show plxown | grep PROMISC"));
    (*port)->Close();
    EXPECT_TRUE(Shell("ip link show plxown | grep PROMISC"));
  }
}

class VethTest : public PortKernelTest {
 protected:
  void SetUp() override {
    PortKernelTest::SetUp();
    if (IsSkipped()) return;
    if (!Shell("ip link add vkern type veth peer name vport")) {
      GTEST_SKIP() << "needs the right to make a veth pair (a network namespace of its own)";
    }
    ASSERT_TRUE(
        Shell("ip link set vkern mtu 4400 up && ip link set vport mtu 4400 up && "
              "ip addr add 10.9.0.1/24 dev vkern"));
  }
  void TearDown() override { (void)Shell("ip link del vkern 2>/dev/null"); }
  static io::PortOptions Options() {
    return {.devargs = "net_af_packet0,iface=vport", .pools = {io::PoolForTest()}};
  }
};

TEST_F(VethTest, HasAQueueForEachWorker) {
  io::PortOptions options = Options();
  options.pools.push_back(io::PoolForTest());
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_EQ((*port)->queues(), 2);
  AllQueues queues(port->get());
  Host host(&queues, **port);
  EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 10.9.0.2"));
  EXPECT_TRUE(host.Resolve(kKernel).ok());
}

// The number of the fan-out group that the driver wants for this process and interface belongs to
// another socket, on either interface. A process of another container may have this one's PID.
TEST_F(VethTest, ReceivesAllFramesDespiteAFanoutGroupOfTheSameNumber) {
  const uint32_t number = (static_cast<uint32_t>(getpid()) ^ if_nametoindex("vport")) & 0xFFFF;
  // The driver's type of group (a hash) and flags, so that a socket on the same interface may join.
  constexpr uint32_t kFlags = PACKET_FANOUT_FLAG_DEFRAG | PACKET_FANOUT_FLAG_ROLLOVER;
  const uint32_t group = number | (PACKET_FANOUT_HASH | kFlags) << 16;
  for (const char* interface : {"vkern", "vport"}) {
    SCOPED_TRACE(interface);
    const Fd other(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(setsockopt(other.get(), SOL_PACKET, PACKET_FANOUT, &group, sizeof group), 0);
    for (const size_t queues : {1, 2}) {
      io::PortOptions options = Options();
      options.pools.resize(queues, io::PoolForTest());
      absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
      ASSERT_TRUE(port.ok()) << port.status();
      AllQueues link(port->get());
      Host host(&link, **port);
      EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 10.9.0.2"));
      // Of different hashes: of these an own group has all, a shared one half.
      const std::string sends = "for p in $(seq 5001 5032); do echo > /dev/udp/10.9.0.2/$p; done";
      const uint64_t before = (*port)->Statistics().rx_frames;
      EXPECT_TRUE(host.PollWhile("bash -c '" + sends + "'"));
      EXPECT_TRUE(Eventually([&] {
        host.Poll();
        return (*port)->Statistics().rx_frames >= before + 32;
      }));
    }
  }
}

TEST_F(VethTest, FramesAboveALoweredMtuAreCounted) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->queue().FollowLink().mtu, 4400);
  const unsigned buffers = rte_mempool_in_use_count(io::PoolForTest());
  // Frames of as many bytes as given, to nobody: all are taken.
  const auto send = [&](std::initializer_list<uint16_t> lengths) {
    std::vector<rte_mbuf*> frames;
    for (const uint16_t length : lengths) {
      frames.push_back(rte_pktmbuf_alloc(io::PoolForTest()));
      auto* bytes = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frames.back(), length));
      std::fill_n(bytes, length, uint8_t{0});
      bytes[12] = bytes[13] = 0x88;  // a type that nobody listens to
    }
    const auto count = static_cast<uint16_t>(frames.size());
    EXPECT_EQ((*port)->queue().Send(frames.data(), count, 0), count);
  };
  constexpr uint16_t kEthernet = 14;
  send({60, 4200});
  EXPECT_EQ((*port)->Statistics().tx_over_mtu, 0u);
  ASSERT_TRUE(Shell("ip link set vport mtu 1500"));
  EXPECT_EQ((*port)->queue().FollowLink().mtu, 1500);
  send({1500 + kEthernet + 1, 60, 1500 + kEthernet, 4200, 4200});
  EXPECT_EQ((*port)->Statistics().tx_over_mtu, 3u);
  ASSERT_TRUE(Shell("ip link set vport mtu 4400"));
  (*port)->queue().FollowLink();
  send({4200});
  EXPECT_EQ((*port)->Statistics().tx_over_mtu, 3u);
  EXPECT_EQ((*port)->Statistics().tx_frames, 5u);
  EXPECT_EQ(rte_mempool_in_use_count(io::PoolForTest()), buffers);
}

// The driver does not tell.
TEST_F(VethTest, FramesDroppedForAFullRingAreCounted) {
  const absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  (void)(*port)->Statistics();
  constexpr uint64_t kFrames = 1000;  // the ring has 512 slots
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex("vkern"));
  const int sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  ASSERT_GE(sender, 0);
  // Experimental (IEEE 802): nobody else sends it here.
  constexpr uint8_t kMark[] = {0x88, 0xB5};
  std::array<uint8_t, 60> frame{};
  std::ranges::copy(kMark, frame.begin() + 12);
  for (uint64_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(sendto(sender, frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to),
              static_cast<ssize_t>(frame.size()));
  }
  // What comes besides counts for both.
  uint64_t received = 0, marked = 0;
  std::array<rte_mbuf*, 32> frames;
  const auto receive = [&] {
    const uint16_t count = (*port)->queue().Receive(frames.data(), frames.size(), 0);
    for (uint16_t i = 0; i < count; ++i) {
      const auto* bytes = rte_pktmbuf_mtod(frames[i], const uint8_t*);
      marked += std::equal(std::begin(kMark), std::end(kMark), bytes + 12);
      rte_pktmbuf_free(frames[i]);
    }
    received += count;
  };
  uint64_t missed = 0;
  EXPECT_TRUE(Eventually([&] {
    receive();
    missed = (*port)->Statistics().rx_missed;
    return marked + missed >= kFrames;
  }));
  EXPECT_GE(missed, kFrames - 512);
  EXPECT_EQ((*port)->Statistics().rx_missed, missed) << "asked again, with nothing in between";
  EXPECT_EQ((*port)->Statistics().rx_frames, received);
  (*port)->Close();
  EXPECT_EQ((*port)->Statistics().rx_missed, missed);
  close(sender);
}

TEST_F(VethTest, ADeletedInterfaceIsGone) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_FALSE((*port)->queue().FollowLink().gone);
  ASSERT_TRUE(Shell("ip link set vport down"));
  EXPECT_FALSE((*port)->queue().FollowLink().gone) << "down only";
  ASSERT_TRUE(Shell("ip link del vport"));
  EXPECT_TRUE((*port)->queue().FollowLink().gone);
  ASSERT_TRUE(Shell("ip link add vkern type veth peer name vport"));
  EXPECT_TRUE((*port)->queue().FollowLink().gone) << "another of its name";
}

// A program that has no descriptor left for a while (accept(2) fails with EMFILE) keeps its device.
TEST_F(VethTest, AnInterfaceIsNotGoneWithoutFreeDescriptors) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const io::LinkState link = (*port)->queue().FollowLink();
  const absl::Status interface = (*port)->CheckInterface();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(link.gone);
  EXPECT_TRUE(link.up);
  EXPECT_GT(link.mtu, 0);
  EXPECT_TRUE(interface.ok()) << interface;
}

TEST_F(VethTest, ARenamedInterfaceIsNotGone) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_TRUE((*port)->GetLink().up);
  ASSERT_EQ(std::system("ip link set vport name vother"), 0);
  EXPECT_TRUE((*port)->queue().FollowLink().up);
  EXPECT_FALSE((*port)->GetLink().gone);
  EXPECT_TRUE((*port)->CheckInterface().ok());
  ASSERT_EQ(std::system("ip link del vother"), 0);
  EXPECT_TRUE((*port)->queue().FollowLink().gone);
}

TEST_F(VethTest, LinkStateMatchesTheKernel) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(any.ok());
  EXPECT_EQ((*port)->GetLink(), io::KernelLink(any.get(), "vport"));
  EXPECT_TRUE((*port)->GetLink().up);
  EXPECT_GT((*port)->GetLink().speed_mbps, 0u);
  // The kernel takes its time to see what a carrier does.
  const auto becomes = [&](bool up) {
    return Eventually([&] { return (*port)->GetLink().up == up; });
  };
  ASSERT_TRUE(Shell("ip link set vkern down"));
  EXPECT_TRUE(becomes(false)) << "no carrier";
  ASSERT_TRUE(Shell("ip link set vkern up"));
  EXPECT_TRUE(becomes(true));
  ASSERT_TRUE(Shell("ip link set vport down"));
  EXPECT_TRUE(becomes(false));
  EXPECT_FALSE(io::KernelLink(any.get(), "nobody").up);
  EXPECT_TRUE(io::KernelLink(any.get(), "nobody").gone);
}

TEST_F(VethTest, KernelPingsThePort) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->mtu(), 4268);
  EXPECT_TRUE((*port)->GetLink().up);
  Host host(&(*port)->queue(), **port);
  EXPECT_EQ(host.interface.active_mtu(), IBV_MTU_4096);
  EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 10.9.0.2"));
  EXPECT_TRUE(host.PollWhile("ping -n -c 2 -i 0.2 -W 60 -M do -s 4200 10.9.0.2"));
  EXPECT_GE(host.interface.counters().arp_replies_sent, 1u);
  // ping(8) waits for a last answer no longer than the others took.
  EXPECT_TRUE(Eventually([&] {
    host.Poll();
    return host.interface.counters().echo_replies_sent >= 5;
  }));
  EXPECT_FALSE(host.interface.conflict().has_value());
}

TEST_F(VethTest, PortResolvesTheKernelAndFailsForAnAbsentHost) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  Host host(&(*port)->queue(), **port);
  EXPECT_TRUE(host.Resolve(kKernel).ok());
  EXPECT_EQ(host.Resolve(kKernel + 70).code(), absl::StatusCode::kUnavailable);
}

TEST_F(VethTest, AnAddressConflictIsDetected) {
  ASSERT_TRUE(Shell("ip addr add 10.9.0.2/24 dev vkern"));
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  Host host(&(*port)->queue(), **port);
  while (!host.interface.conflict()) host.Poll();
  EXPECT_NE(host.interface.conflict()->mac, (*port)->mac());
  EXPECT_EQ(host.interface.conflict()->address, Gid::FromIpv4(kOurs));
}

TEST_F(VethTest, PingWorksOverAnImpairedLink) {
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(Options());
  ASSERT_TRUE(port.ok()) << port.status();
  io::Impairment impairment(&(*port)->queue(),
                            {.loss = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1},
                            io::PoolForTest());
  Host host(&impairment, **port);
  // Until one in fifty comes through; nearly all do.
  EXPECT_TRUE(host.PollWhile("ping -n -c 50 -i 0.02 -W 60 10.9.0.2"));
  EXPECT_GT(impairment.receive_counters().lost + impairment.send_counters().lost, 0u);
}

TEST_F(VethTest, AnInterfaceThatIsDownIsAnError) {
  ASSERT_TRUE(Shell("ip link set vport down"));
  const absl::Status status = io::Port::Open(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("ip link set vport up"), std::string::npos) << status;
}

TEST_F(VethTest, BuffersFitTheSlotSizeOfTheUser) {
  io::PortOptions options = Options();
  options.devargs += ",framesz=8192,blocksz=65536,framecnt=512";
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
  ASSERT_TRUE(port.ok()) << port.status();
  Host host(&(*port)->queue(), **port);
  EXPECT_TRUE(host.PollWhile("ping -n -c 2 -i 0.2 -W 60 -M do -s 4200 10.9.0.2"));
}

TEST_F(VethTest, KernelPingsAnXdpSocket) {
  // An XDP program takes frames of one page only, so the interface must not carry more.
  ASSERT_TRUE(Shell("ip link set vkern mtu 3000 && ip link set vport mtu 3000"));
  absl::StatusOr<std::unique_ptr<io::Port>> port =
      io::Port::Open({.devargs = "net_af_xdp0,iface=vport", .pools = {io::PoolForTest()}});
  if (absl::IsInternal(port.status())) {
    GTEST_SKIP() << "needs a kernel and a right to load XDP programs: " << port.status();
  }
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->mtu(), 3000);
  Host host(&(*port)->queue(), **port);
  EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 -M do -s 2900 10.9.0.2"));
  EXPECT_TRUE(host.Resolve(kKernel).ok());
}

class TapTest : public PortKernelTest {
 protected:
  void SetUp() override {
    PortKernelTest::SetUp();
    if (IsSkipped()) return;
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun";
    if (!Shell("ip tuntap add dev plxprobe mode tap")) {
      GTEST_SKIP() << "needs the right to make a tap (a network namespace of its own)";
    }
    (void)Shell("ip link del plxprobe");
  }
};

TEST_F(TapTest, KernelPingsThePortAndThePortResolvesTheKernel) {
  const io::PortOptions options{.devargs = "net_tap0,iface=plxtest0", .pools = {io::PoolForTest()}};
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->mtu(), 1500);
  ASSERT_TRUE(Shell("ip addr add 10.9.0.1/24 dev plxtest0 && ip link set plxtest0 up"));
  Host host(&(*port)->queue(), **port);
  EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 10.9.0.2"));
  EXPECT_TRUE(host.PollWhile("ping -n -c 2 -i 0.2 -W 60 -M do -s 1472 10.9.0.2"));
  EXPECT_TRUE(host.Resolve(kKernel).ok());
  // Somebody else's interface is not taken over.
  const absl::Status status = io::Port::Open({.devargs = "net_tap1,iface=plxtest0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
}

TEST_F(TapTest, HasAQueueForEachWorker) {
  const io::PortOptions options{.devargs = "net_tap2,iface=plxtest2",
                                .pools = {io::PoolForTest(), io::PoolForTest()}};
  absl::StatusOr<std::unique_ptr<io::Port>> port = io::Port::Open(options);
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_EQ((*port)->queues(), 2);
  ASSERT_TRUE(Shell("ip addr add 10.9.0.1/24 dev plxtest2 && ip link set plxtest2 up"));
  AllQueues queues(port->get());
  Host host(&queues, **port);
  EXPECT_TRUE(host.PollWhile("ping -n -c 3 -i 0.2 -W 60 10.9.0.2"));
}

}  // namespace
}  // namespace pollux::kernel
