// Threads of every kind on one device at once: those that poll, that sleep on completion channels,
// that wait for events of connections, and that make and destroy objects meanwhile. Two processes
// at the ends of a wire, in a network namespace of their own (tag block-network).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"
#include "stack/io/own_network_for_test.h"

namespace pollux::compat {
namespace {

constexpr uint32_t kDepth = 16, kConnectedDepth = 4;
constexpr uint32_t kBytes = 3000;
constexpr size_t kPollers = 2, kSleepers = 3;
constexpr uint32_t kRounds = 500;
constexpr int kConnectors = 2, kConnectionsOfEach = 15;
constexpr uint16_t kPort = 7471;

enum class Side { kClient, kServer };

// What the two processes tell each other before and after.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  ~Line() { close(fd_); }
  template <class Value>
  bool Tell(const Value& value) {
    return write(fd_, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
  }
  template <class Value>
  bool Hear(Value* value) {
    return recv(fd_, value, sizeof *value, MSG_WAITALL) == static_cast<ssize_t>(sizeof *value);
  }
  // Whether the other side has come to its own Meet().
  bool Meet() {
    char other = 0;
    return Tell('.') && Hear(&other);
  }

 private:
  int fd_;
};

struct Wire {
  const char* interface;
  const char* address;
};
constexpr Wire kWires[] = {{"pollux-a", "192.0.2.1"}, {"pollux-b", "192.0.2.2"}};
const Wire& Of(Side side) { return kWires[side == Side::kServer ? 0 : 1]; }

ibv_gid GidOf(const char* address) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xFF;
  inet_pton(AF_INET, address, &gid.raw[12]);
  return gid;
}

// A queue pair with a thread of its own, and its peer at the other end.
class Lane {
 public:
  Lane(ibv_context* context, ibv_pd* pd, bool sleeps) : sleeps_(sleeps) {
    if (sleeps) channel_ = ibv_create_comp_channel(context);
    cq_ = ibv_create_cq(context, 4 * kDepth, this, channel_, 0);
    ibv_qp_init_attr init = ReliableQp(kDepth);
    init.send_cq = init.recv_cq = cq_;
    init.sq_sig_all = 1;
    qp_ = ibv_create_qp(pd, &init);
    mr_ = ibv_reg_mr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  }
  ~Lane() {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    if (channel_ != nullptr) {
      EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
  }

  uint32_t qpn() const { return qp_->qp_num; }
  int Connect(uint8_t gid_index, const ibv_gid& peer, uint32_t peer_qpn) {
    constexpr uint8_t kTimeout = 19;  // 2.1 s: on a busy machine the other process stands still
    return MoveToRts(qp_,
                     {.qpn = peer_qpn, .gid = peer, .gid_index = gid_index, .timeout = kTimeout});
  }

  // Before the peer may send.
  bool PostReceive() {
    ibv_sge element = Element(kReceived);
    ibv_recv_wr wr{};
    wr.sg_list = &element;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad) == 0;
  }
  // Every round a message to and fro. False: trouble() says what went wrong.
  bool Run(Side side) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (side == Side::kClient && !Send(round)) return false;
      while (received_ <= round) {
        if (!TakeOne()) return false;
      }
      if (!Holds(round) || (round + 1 < kRounds && !PostReceive())) return false;
      if (side == Side::kServer && !Send(round)) return false;
    }
    while (sent_ < kRounds) {
      if (!TakeOne()) return false;
    }
    return true;
  }
  const std::string& trouble() const { return trouble_; }

 private:
  static constexpr uint32_t kSent = 0, kReceived = kBytes;

  ibv_sge Element(uint32_t at) {
    return {.addr = reinterpret_cast<uint64_t>(memory_.data() + at),
            .length = kBytes,
            .lkey = mr_->lkey};
  }
  static uint8_t ByteOf(uint32_t round, uint32_t i) {
    return static_cast<uint8_t>(round * 31 + i * 7);
  }
  bool Send(uint32_t round) {
    // What was sent before is not read any more.
    while (sent_ < round) {
      if (!TakeOne()) return false;
    }
    for (uint32_t i = 0; i < kBytes; ++i) memory_[kSent + i] = ByteOf(round, i);
    ibv_sge element = Element(kSent);
    ibv_send_wr wr{};
    wr.sg_list = &element;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_, &wr, &bad) == 0 || Fail("post_send");
  }
  bool Holds(uint32_t round) {
    for (uint32_t i = 0; i < kBytes; ++i) {
      if (memory_[kReceived + i] != ByteOf(round, i)) return Fail("data of another message");
    }
    return true;
  }
  bool TakeOne() {
    ibv_wc completion{};
    while (true) {
      int count = ibv_poll_cq(cq_, 1, &completion);
      if (count == 0 && sleeps_) {
        if (ibv_req_notify_cq(cq_, 0) != 0) return Fail("req_notify_cq");
        count = ibv_poll_cq(cq_, 1, &completion);
        if (count == 0) {
          ibv_cq* announced = nullptr;
          void* user = nullptr;
          if (ibv_get_cq_event(channel_, &announced, &user) != 0) return Fail("get_cq_event");
          if (announced != cq_ || user != this) return Fail("an event of another queue");
          ibv_ack_cq_events(cq_, 1);
          continue;
        }
      }
      if (count < 0) return Fail("poll_cq");
      if (count > 0) break;
    }
    if (completion.status != IBV_WC_SUCCESS) return Fail(ibv_wc_status_str(completion.status));
    ++(completion.opcode == IBV_WC_RECV ? received_ : sent_);
    return true;
  }
  bool Fail(const char* what) {
    trouble_ = what;
    return false;
  }

  const bool sleeps_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kBytes);
  uint32_t sent_ = 0, received_ = 0;
  std::string trouble_;
};

// Connections one after the other, each call waiting for its event.
void ConnectAgainAndAgain() {
  for (int i = 0; i < kConnectionsOfEach; ++i) {
    rdma_cm_id* id = MakePeer(Of(Side::kServer).address, kPort, kConnectedDepth);
    rdma_conn_param param{};
    param.retry_count = 7;
    ASSERT_EQ(rdma_connect(id, &param), 0) << strerror(errno);
    ASSERT_EQ(rdma_disconnect(id), 0);
    rdma_destroy_qp(id);
    ASSERT_EQ(rdma_destroy_id(id), 0);
  }
}

class Acceptor {
 public:
  void Listen() {
    channel_ = rdma_create_event_channel();
    ASSERT_EQ(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(Bind(listener_, "0.0.0.0", kPort), 0);
    ASSERT_EQ(rdma_listen(listener_, kConnectors), 0);
  }
  // Until all connections have come and gone.
  void Serve() {
    for (int left = kConnectors * kConnectionsOfEach; left > 0;) {
      rdma_cm_event* event = nullptr;
      ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
      rdma_cm_id* const id = event->id;
      const rdma_cm_event_type type = event->event;
      ASSERT_EQ(rdma_ack_cm_event(event), 0);
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        ASSERT_EQ(MakeQp(id, kConnectedDepth), 0);
        rdma_conn_param param{};
        param.rnr_retry_count = 7;
        ASSERT_EQ(rdma_accept(id, &param), 0);
      } else if (type == RDMA_CM_EVENT_DISCONNECTED) {
        rdma_destroy_qp(id);
        ASSERT_EQ(rdma_destroy_id(id), 0);
        --left;
      } else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
        ASSERT_EQ(type, RDMA_CM_EVENT_ESTABLISHED) << rdma_event_str(type);
      }
    }
    ASSERT_EQ(rdma_destroy_id(listener_), 0);
    rdma_destroy_event_channel(channel_);
  }

 private:
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
};

// Objects that come and go, while others are in use.
void MakeAndDestroy(ibv_context* context, const std::atomic<bool>& enough) {
  std::array<char, 256> memory{};
  while (!enough) {
    ibv_pd* pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    {
      Lane lane(context, pd, /*sleeps=*/true);
      ASSERT_TRUE(lane.PostReceive() == false) << "in RESET";
    }
    ASSERT_EQ(ibv_dereg_mr(mr), 0);
    ASSERT_EQ(ibv_dealloc_pd(pd), 0);
    rdma_event_channel* channel = rdma_create_event_channel();
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_UDP), 0);
    ASSERT_EQ(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    std::this_thread::yield();
  }
}

std::optional<uint8_t> GidIndexOf(ibv_context* context, const char* address) {
  const ibv_gid wanted = GidOf(address);
  ibv_gid found;
  for (int i = 0; ibv_query_gid(context, 1, i, &found) == 0; ++i) {
    if (std::memcmp(&found, &wanted, sizeof found) == 0) return static_cast<uint8_t>(i);
  }
  return std::nullopt;
}

void ConnectLanes(Side side, ibv_context* context, Line& line,
                  std::vector<std::unique_ptr<Lane>>& lanes) {
  const std::optional<uint8_t> index = GidIndexOf(context, Of(side).address);
  ASSERT_TRUE(index.has_value());
  const ibv_gid peer = GidOf(Of(side == Side::kClient ? Side::kServer : Side::kClient).address);
  for (const auto& lane : lanes) {
    ASSERT_TRUE(line.Tell(lane->qpn()));
    uint32_t peer_qpn = 0;
    ASSERT_TRUE(line.Hear(&peer_qpn));
    ASSERT_EQ(lane->Connect(*index, peer, peer_qpn), 0);
    ASSERT_TRUE(lane->PostReceive());
  }
}

void RunSide(Side side, Line& line) {
  const std::string port = std::string("port=net_af_packet0,iface=") + Of(side).interface +
                           "\naddress=" + Of(side).address + "/24\nmemory=128\n";
  setenv(kSettingsVariable, port.c_str(), 1);
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list[0], nullptr);
  ibv_context* context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_free_device_list(list);
  // Still there when the process ends.
  std::thread([context] {
    ibv_async_event event;
    while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  }).detach();
  ibv_pd* pd = ibv_alloc_pd(context);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (size_t i = 0; i < kPollers + kSleepers; ++i) {
    lanes.push_back(std::make_unique<Lane>(context, pd, i >= kPollers));
  }
  ASSERT_NO_FATAL_FAILURE(ConnectLanes(side, context, line, lanes));
  Acceptor acceptor;
  if (side == Side::kServer) acceptor.Listen();
  ASSERT_TRUE(line.Meet());

  std::vector<std::thread> threads;
  for (const auto& lane : lanes) {
    threads.emplace_back(
        [side, lane = lane.get()] { EXPECT_TRUE(lane->Run(side)) << lane->trouble(); });
  }
  if (side == Side::kServer) {
    threads.emplace_back([&] { acceptor.Serve(); });
  } else {
    for (int i = 0; i < kConnectors; ++i) threads.emplace_back(ConnectAgainAndAgain);
  }
  std::atomic<bool> enough = false;
  std::thread destroyer([&] { MakeAndDestroy(context, enough); });
  for (std::thread& thread : threads) thread.join();
  enough = true;
  destroyer.join();
  // The last acknowledgements of the other side are answered.
  EXPECT_TRUE(line.Meet());
  lanes.clear();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

bool Shell(const std::string& command) { return std::system((command + " >&2").c_str()) == 0; }

TEST(Threads, ThreadsOfEveryKindShareADevice) {
  if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to a network namespace";
  ASSERT_TRUE(
      Shell("ip link add pollux-a mtu 4400 type veth peer name pollux-b mtu 4400 &&"
            "ip link set pollux-a up && ip link set pollux-b up"));
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t server = fork();
  ASSERT_GE(server, 0);
  close(ends[server == 0 ? 0 : 1]);
  {
    Line line(ends[server == 0 ? 1 : 0]);
    RunSide(server == 0 ? Side::kServer : Side::kClient, line);
  }
  if (server == 0) std::exit(HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
  int status = 0;
  ASSERT_EQ(waitpid(server, &status, 0), server);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) << status;
}

}  // namespace
}  // namespace pollux::compat
