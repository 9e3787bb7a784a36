#include "stack/io/port/port.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stack/io/eal_for_test.h"
#include "stack/io/port/port_driver.h"

namespace pollux::io {
namespace {

// Short enough for a socket, which TEST_TMPDIR may not be.
class TempDirectory {
 public:
  TempDirectory() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/tmp/pollux_port_XXXXXX";
};

// Keeps all threads of the process on one of its processors.
class OneProcessor {
 public:
  OneProcessor() {
    CPU_ZERO(&before_);
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    SetAll(one);
  }
  ~OneProcessor() { SetAll(before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  static void SetAll(const cpu_set_t& cpus) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const auto id = static_cast<pid_t>(std::stol(task.path().filename()));
      const bool set = sched_setaffinity(id, sizeof cpus, &cpus) == 0;
      EXPECT_TRUE(set || errno == ESRCH) << id;  // a thread may end meanwhile
    }
  }
  cpu_set_t before_;
};

// A listening socket in place of a memif server's.
int ListenOn(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  return listener;
}

Devargs Parsed(const std::string& text) { return *Devargs::Parse(text); }

TEST(PortDriver, LargeFramesAreRequestedUnlessTheUserSetsTheSize) {
  Devargs af_packet = Parsed("net_af_packet0,iface=v");
  AddDriverDefaults(&af_packet, 4352, 1);
  EXPECT_EQ(af_packet.ToString(), "net_af_packet0,iface=v,framesz=4352,blocksz=69632,framecnt=512");
  EXPECT_LE(DriverDataRoom(af_packet).least, 4352);

  Devargs own = Parsed("net_af_packet0,iface=v,framesz=8192,blocksz=65536,framecnt=512");
  const std::string before = own.ToString();
  AddDriverDefaults(&own, 4352, 1);
  EXPECT_EQ(own.ToString(), before);
  EXPECT_GT(DriverDataRoom(own).least, 4352);

  Devargs memif = Parsed("net_memif0,role=client,socket=/tmp/s,bsize=4096");
  AddDriverDefaults(&memif, 4352, 1);
  EXPECT_EQ(memif.ToString(),
            "net_memif0,role=client,socket=/tmp/s,bsize=4096,socket-abstract=no,rsize=9");
}

TEST(PortDriver, TheMtuIsLimitedByTheDriver) {
  EXPECT_EQ(DriverMtu(Parsed("net_ring0"), 4352, 1500), kMaxMtu);
  EXPECT_EQ(DriverMtu(Parsed("net_ring0"), 2048, 1500), 2030);
  EXPECT_EQ(DriverMtu(Parsed("net_memif0,bsize=8192"), 4352, 1500), kMaxMtu);
  EXPECT_EQ(DriverMtu(Parsed("net_memif0,bsize=2048"), 4352, 1500), 2030);
  EXPECT_EQ(DriverMtu(Parsed("net_memif0,bsize=1"), 4352, 1500), 0);
  EXPECT_EQ(DriverMtu(Parsed("net_tap0"), 4352, 1500), 1500);
  EXPECT_EQ(DriverMtu(Parsed("net_null0"), 4352, 1500), 1500);
  // "lo" has an MTU of 65,536 or so.
  EXPECT_EQ(DriverMtu(Parsed("net_af_packet0,iface=lo,framesz=4352"), 4352, 1500), 4268);
  EXPECT_EQ(DriverMtu(Parsed("net_af_xdp0,iface=lo"), 4352, 1500), 3542);
}

TEST(Port, RingPairCarriesLargeFramesBothWays) {
  absl::StatusOr<Port::Pair> pair = Port::CreateRingPair("carry", {PoolForTest()}, {PoolForTest()});
  ASSERT_TRUE(pair.ok()) << pair.status();
  auto& [a, b] = *pair;
  EXPECT_EQ(a->mtu(), kMaxMtu);
  EXPECT_NE(a->mac(), b->mac());
  EXPECT_EQ(a->mac()[0] & 0x03, 0x02);  // locally administered, unicast
  EXPECT_EQ(a->GetLink(), (LinkState{.up = true, .speed_mbps = 10'000})) << "as its driver says";
  for (auto [from, to] : {std::pair(a.get(), b.get()), std::pair(b.get(), a.get())}) {
    std::vector<uint8_t> bytes(kMaxMtu + 14, 0x42);
    bytes[0] = from == a.get() ? 1 : 2;
    rte_mbuf* frame = FrameForTest(bytes);
    ASSERT_EQ(from->queue().Send(&frame, 1, 0), 1);
    rte_mbuf* got[2];
    ASSERT_EQ(to->queue().Receive(got, 2, 0), 1);
    EXPECT_EQ(BytesOf(got[0]), bytes);
    rte_pktmbuf_free(got[0]);
  }
  EXPECT_EQ(a->Statistics().tx_frames, 1u);
}

TEST(Port, AFullRingPairRefusesFramesAndFreesThemOnClose) {
  absl::StatusOr<Port::Pair> pair = Port::CreateRingPair("full", {PoolForTest()}, {PoolForTest()});
  ASSERT_TRUE(pair.ok()) << pair.status();
  unsigned sent = 0;
  for (;; ++sent) {
    rte_mbuf* frame = rte_pktmbuf_alloc(PoolForTest());
    if (frame == nullptr) break;
    if (pair->first->queue().Send(&frame, 1, 0) == 1) continue;
    rte_pktmbuf_free(frame);
    break;
  }
  EXPECT_EQ(sent, Port::kRingFrames - 1);  // the pool of 1,023 or the ring, whichever is first
  EXPECT_EQ(FramesInUse(), sent);
  pair->first->Close();
  EXPECT_EQ(FramesInUse(), 0u);
  rte_mbuf* frame;
  EXPECT_EQ(pair->first->queue().Receive(&frame, 1, 0), 0);
  EXPECT_FALSE(pair->first->GetLink().up);
}

TEST(Port, RingPairHasTheQueuesOfItsSmallerSide) {
  rte_mempool* pool = PoolForTest();
  absl::StatusOr<Port::Pair> pair =
      Port::CreateRingPair("queues", {pool, pool, pool}, {pool, pool});
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->first->queues(), 2);
  EXPECT_EQ(pair->second->queues(), 2);
  for (const uint16_t i : {0, 1}) {
    rte_mbuf* frame = FrameForTest({static_cast<uint8_t>(i)});
    ASSERT_EQ(pair->first->queue(i).Send(&frame, 1, 0), 1);
    rte_mbuf* got;
    EXPECT_EQ(pair->second->queue(1 - i).Receive(&got, 1, 0), 0);
    ASSERT_EQ(pair->second->queue(i).Receive(&got, 1, 0), 1);
    EXPECT_EQ(BytesOf(got), std::vector<uint8_t>{static_cast<uint8_t>(i)});
    rte_pktmbuf_free(got);
  }
  EXPECT_EQ(pair->first->Statistics().tx_frames, 2u);
}

TEST(PortDriver, QueuesAreRequestedWhereTheDriverSupportsThem) {
  Devargs af_packet = Parsed("net_af_packet0,iface=v,framesz=2048,blocksz=4096,framecnt=512");
  AddDriverDefaults(&af_packet, 4352, 3);
  EXPECT_EQ(af_packet.Get("qpairs"), "3");
  Devargs own = Parsed("net_af_packet0,iface=v,qpairs=2");
  AddDriverDefaults(&own, 4352, 3);
  EXPECT_EQ(own.Get("qpairs"), "2");
  EXPECT_EQ(DriverQueues(Driver::kMemif), 1);
  EXPECT_GT(DriverQueues(Driver::kAfPacket), 1);
  absl::StatusOr<std::unique_ptr<Port>> port =
      Port::Open({.devargs = "net_ring8", .pools = {PoolForTest(), PoolForTest()}});
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_EQ((*port)->queues(), 2);
  for (const uint16_t i : {0, 1}) {
    rte_mbuf* frame = FrameForTest({static_cast<uint8_t>(i)});
    ASSERT_EQ((*port)->queue(i).Send(&frame, 1, 0), 1);
    ASSERT_EQ((*port)->queue(i).Receive(&frame, 1, 0), 1) << "each loops on itself";
    EXPECT_EQ(BytesOf(frame), std::vector<uint8_t>{static_cast<uint8_t>(i)});
    rte_pktmbuf_free(frame);
  }
}

TEST(Port, NamesCanBeReusedAfterClosing) {
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<Port::Pair> pair =
        Port::CreateRingPair("again", {PoolForTest()}, {PoolForTest()});
    ASSERT_TRUE(pair.ok()) << i << ": " << pair.status();
  }
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<std::unique_ptr<Port>> port =
        Port::Open({.devargs = "net_null0", .pools = {PoolForTest()}});
    ASSERT_TRUE(port.ok()) << i << ": " << port.status();
  }
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Port, TheSmallerPoolLimitsTheMtuOfBothSides) {
  InitEalForTest();
  rte_mempool* small =
      rte_pktmbuf_pool_create("small", 63, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  ASSERT_NE(small, nullptr);
  absl::StatusOr<Port::Pair> pair = Port::CreateRingPair("small", {PoolForTest()}, {small});
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->first->mtu(), 2030);
  EXPECT_EQ(pair->second->mtu(), 2030);
}

TEST(Port, ASingleRingPortLoopsBack) {
  absl::StatusOr<std::unique_ptr<Port>> port = Port::Open(
      {.devargs = "net_ring7", .pools = {PoolForTest()}, .mac = MacAddress{2, 0, 0, 0, 0, 9}});
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->mac(), (MacAddress{2, 0, 0, 0, 0, 9}));
  rte_mbuf* frame = FrameForTest({1, 2, 3});
  ASSERT_EQ((*port)->queue().Send(&frame, 1, 0), 1);
  rte_mbuf* got;
  ASSERT_EQ((*port)->queue().Receive(&got, 1, 0), 1);
  EXPECT_EQ(BytesOf(got), (std::vector<uint8_t>{1, 2, 3}));
  rte_pktmbuf_free(got);

  EXPECT_EQ(Port::Open({.devargs = "net_ring7", .pools = {PoolForTest()}}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(Port, MemifClientTimesOutWithoutAServer) {
  const TempDirectory directory;
  const std::string path = directory / "absent.sock";
  const absl::Status status = Port::Open({.devargs = "net_memif0,role=client,socket=" + path,
                                          .pools = {PoolForTest()},
                                          .start_timeout_ms = 40})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Port, MemifCarriesLargeFramesBetweenProcesses) {
  const TempDirectory directory;
  const std::string path = directory / "memif.sock";
  // Serves until its standard input ends. The client is started first or second, as it happens.
  FILE* server = popen((std::string(std::getenv("MEMIF_ECHO")) + " " + path).c_str(), "w");
  ASSERT_NE(server, nullptr);
  absl::StatusOr<std::unique_ptr<Port>> client =
      Port::Open({.devargs = "net_memif3,role=client,socket=" + path,
                  .pools = {PoolForTest()},
                  .start_timeout_ms = 30'000});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->mtu(), kMaxMtu);
  EXPECT_TRUE((*client)->GetLink().up);
  // A second server on the same path is refused in words.
  EXPECT_EQ(
      Port::Open({.devargs = "net_memif2,role=server,socket=" + path, .pools = {PoolForTest()}})
          .status()
          .code(),
      absl::StatusCode::kAlreadyExists);
  const std::vector<uint8_t> bytes(kMaxMtu + 14, 0x17);
  rte_mbuf* frame = FrameForTest(bytes);
  while ((*client)->queue().Send(&frame, 1, 0) == 0) usleep(1000);
  rte_mbuf* got;
  while ((*client)->queue().Receive(&got, 1, 0) == 0) usleep(1000);
  EXPECT_EQ(got->nb_segs, 1);
  EXPECT_EQ(BytesOf(got), bytes);
  rte_pktmbuf_free(got);
  (*client)->Close();
  EXPECT_EQ(pclose(server), 0);
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Port, MemifClientReportsARefusal) {
  const TempDirectory directory;
  const std::string path = directory / "refuses.sock";
  const int listener = ListenOn(path);
  for (int i = 0; i < 2; ++i) {  // the second finds nothing that the first has left
    std::thread refuses([listener] { close(accept(listener, nullptr, nullptr)); });
    const absl::Status status = Port::Open({.devargs = "net_memif7,role=client,socket=" + path,
                                            .pools = {PoolForTest()},
                                            .start_timeout_ms = 30'000})
                                    .status();
    refuses.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_NE(status.message().find("refuses"), std::string::npos) << status;
  }
  close(listener);
  EXPECT_EQ(FramesInUse(), 0u);
}

// Like a DPDK server that a debugger has stopped.
TEST(Port, MemifClientWaitsForAServerThatDoesNotAccept) {
  const TempDirectory directory;
  const std::string path = directory / "silent.sock";
  const int listener = ListenOn(path);
  const auto client = Port::Open({.devargs = "net_memif9,role=client,socket=" + path,
                                  .pools = {PoolForTest()},
                                  .start_timeout_ms = 40});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE((*client)->GetLink().up);
  close(listener);
}

// What the first sends when it goes is taken on the interrupt thread, while the other goes too.
TEST(Port, MemifEndsMayCloseConcurrently) {
  constexpr int kRounds = 100;
  const TempDirectory directory;
  const std::string path = directory / "both.sock";
  const auto open = [&path](const char* name, const char* role) {
    return Port::Open({.devargs = absl::StrCat(name, ",role=", role, ",socket=", path),
                       .pools = {PoolForTest()},
                       .start_timeout_ms = 30'000});
  };
  for (int i = 0; i < kRounds; ++i) {
    auto server = open("net_memif5", "server");
    ASSERT_TRUE(server.ok()) << server.status();
    auto client = open("net_memif6", "client");
    ASSERT_TRUE(client.ok()) << client.status();
    while (!(*server)->GetLink().up) usleep(100);
    if (i % 2 == 0) std::swap(*server, *client);
    (*server)->Close();
    (*client)->Close();
  }
  EXPECT_EQ(FramesInUse(), 0u);
}

// The driver unmaps what both ends share while the server's worker reads it. On one processor the
// interrupt thread, which does it, interrupts the worker anywhere.
TEST(Port, MemifServerOutlivesClientsThatLeave) {
  constexpr int kRounds = 200;
  const TempDirectory directory;
  const std::string path = directory / "leaves.sock";
  auto server = Port::Open({.devargs = "net_memif10,role=server,socket=" + path,
                            .pools = {PoolForTest()},
                            .start_timeout_ms = 30'000});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::vector<uint8_t> bytes(kMaxMtu + 14, 0x17);
  const OneProcessor one_processor;
  std::atomic<bool> stops = false;
  std::thread worker([&] {
    std::array<rte_mbuf*, 32> frames;
    while (!stops) {
      rte_pktmbuf_free_bulk(frames.data(), (*server)->queue().Receive(frames.data(), 32, 0));
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    auto client = Port::Open({.devargs = "net_memif11,role=client,socket=" + path,
                              .pools = {PoolForTest()},
                              .start_timeout_ms = 30'000});
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) break;
    while (!(*server)->GetLink().up) usleep(100);
    std::array<rte_mbuf*, 64> frames;
    for (rte_mbuf*& one : frames) one = FrameForTest(bytes);
    const uint16_t sent = (*client)->queue().Send(frames.data(), frames.size(), 0);
    rte_pktmbuf_free_bulk(frames.data() + sent, frames.size() - sent);
    usleep(static_cast<useconds_t>(i % 20));  // the worker copies some of them
    (*client)->Close();
    while ((*server)->GetLink().up) usleep(100);
  }
  stops = true;
  worker.join();
  (*server)->Close();
  EXPECT_EQ(FramesInUse(), 0u);
}

TEST(Port, MemifServerReplacesAStaleSocket) {
  const TempDirectory directory;
  const std::string path = directory / "dead.sock";
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(fd);
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  absl::StatusOr<std::unique_ptr<Port>> server =
      Port::Open({.devargs = "net_memif4,role=server,socket=" + path, .pools = {PoolForTest()}});
  EXPECT_TRUE(server.ok()) << server.status();
}

TEST(Port, ErrorsNameTheDeviceAndTheRemedy) {
  InitEalForTest();
  absl::Status status = Port::Open({.devargs = "net_af_packet0,iface=nosuch0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_NE(status.message().find("nosuch0"), std::string::npos) << status;

  status = Port::Open({.devargs = "net_af_packet0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  status = Port::Open({.devargs = "net_memif0,role=king"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  status = Port::Open({.devargs = "0000:ff:1f.7"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  status = Port::Open({.devargs = "net_nonsense0"}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("net_nonsense0"), std::string::npos) << status;
}

}  // namespace
}  // namespace pollux::io
