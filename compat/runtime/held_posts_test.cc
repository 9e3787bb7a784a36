// What a program has posted leaves, whatever it does next; and the acknowledgement of what it
// answers leaves before the answer. Two processes at the ends of a wire, in a network namespace of
// their own (tag block-network).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "compat/rdmacm/cm_peer_for_test.h"
#include "compat/runtime/settings.h"
#include "compat/verbs/reliable_qp_for_test.h"
#include "stack/io/own_network_for_test.h"

namespace pollux::compat {
namespace {

constexpr uint32_t kPosts = 3;              // the first leaves at once, the others are held
constexpr uint32_t kMessages = kPosts + 1;  // one before, by which the sender finds the receiver
constexpr uint32_t kBytes = 64;
constexpr unsigned kTimeoutS = 100;  // on a busy machine
constexpr uint16_t kPort = 7472;

struct End {
  const char* interface;
  const char* address;
};
constexpr End kReceiver{"pollux-a", "192.0.2.1"}, kSender{"pollux-b", "192.0.2.2"};

// Leaves the process when something is not as it must be: in a child no assertion reaches the test.
void Require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%d: %s (%s)\n", getpid(), what, strerror(errno));
  kill(getpid(), SIGKILL);
}

class Program {
 public:
  explicit Program(const End& end) {
    alarm(kTimeoutS);
    const std::string port = std::string("port=net_af_packet0,iface=") + end.interface +
                             "\naddress=" + end.address + "/24\nmemory=128\n";
    setenv(kSettingsVariable, port.c_str(), 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    Require(list != nullptr && list[0] != nullptr, "no device");
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    Require(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr, "no objects");
  }
  void MakeQp() {
    ibv_qp_init_attr init = ReliableQp(16);
    init.send_cq = init.recv_cq = cq_;
    init.sq_sig_all = 1;
    qp_ = ibv_create_qp(pd_, &init);
    Require(qp_ != nullptr, "no queue pair");
  }
  void MakeQp(rdma_cm_id* id) {
    ibv_qp_init_attr init = ReliableQp(16);
    init.send_cq = init.recv_cq = cq_;
    init.sq_sig_all = 1;
    Require(rdma_create_qp(id, pd_, &init) == 0, "no queue pair of an identifier");
    qp_ = id->qp;
  }
  // With the queue pair whose number the other process writes to `line`.
  void Connect(int line, const End& peer) {
    uint32_t theirs = 0;
    const uint32_t mine = qp_->qp_num;
    Require(write(line, &mine, sizeof mine) == sizeof mine &&
                recv(line, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs,
            "no number of the peer's");
    ReliablePeer at{.qpn = theirs, .timeout = 19};
    at.gid.raw[10] = at.gid.raw[11] = 0xFF;
    inet_pton(AF_INET, peer.address, &at.gid.raw[12]);
    at.gid_index = OwnIndex();
    Require(MoveToRts(qp_, at) == 0, "not connected");
    // Both are.
    char other = 0;
    Require(write(line, ".", 1) == 1 && recv(line, &other, 1, MSG_WAITALL) == 1, "no peer");
  }
  void Receive() {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), kBytes, mr_->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    Require(ibv_post_recv(qp_, &wr, &bad) == 0, "post_recv");
  }
  void Send() {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()), kBytes, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    Require(ibv_post_send(qp_, &wr, &bad) == 0, "post_send");
  }
  ibv_wc_opcode AwaitOne() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    Require(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
    return wc.opcode;
  }
  ibv_qp* qp() { return qp_; }

 private:
  // Of the address over IPv4.
  uint8_t OwnIndex() {
    ibv_gid gid;
    constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    for (uint8_t i = 0; ibv_query_gid(context_, 1, i, &gid) == 0; ++i) {
      if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0) return i;
    }
    Require(false, "no address");
    return 0;
  }

  std::array<uint8_t, kBytes> memory_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

class HeldPostsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to a network namespace";
    static const bool wired =
        std::system(
            "(ip link add pollux-a mtu 4400 type veth peer name pollux-b mtu 4400 &&"
            "ip link set pollux-a up && ip link set pollux-b up) >&2") == 0;
    ASSERT_TRUE(wired);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line_), 0);
  }
  void TearDown() override {
    for (const int end : line_) close(end);
  }
  template <class Run>
  static pid_t Fork(Run run) {
    const pid_t child = fork();
    if (child != 0) return child;
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);
    run();
    std::exit(EXIT_SUCCESS);
  }
  static int Await(pid_t child) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  // The receiver has all that is posted before `leave`, a call of the sender's. `ends`: by which
  // the sender ends, too, and well.
  void ExpectPostsLeaveBefore(void (*leave)(ibv_qp*), bool ends = false) {
    const pid_t receiver = Fork([this] {
      static Program program(kReceiver);
      program.MakeQp();
      program.Connect(line_[0], kSender);
      for (uint32_t i = 0; i < kMessages; ++i) program.Receive();
      Require(write(line_[0], ".", 1) == 1, "no sender");
      for (uint32_t i = 0; i < kMessages; ++i) {
        Require(program.AwaitOne() == IBV_WC_RECV, "not a message");
      }
    });
    const pid_t sender = Fork([this, leave] {
      static Program program(kSender);
      program.MakeQp();
      program.Connect(line_[1], kReceiver);
      char ready = 0;
      Require(recv(line_[1], &ready, 1, MSG_WAITALL) == 1, "no receiver");
      program.Send();
      program.AwaitOne();
      for (uint32_t i = 0; i < kPosts; ++i) program.Send();
      leave(program.qp());
      while (true) pause();
    });
    EXPECT_EQ(Await(receiver), 0);
    if (!ends) kill(sender, SIGKILL);
    const int status = Await(sender);
    if (ends) {
      EXPECT_EQ(status, 0);
    }
  }
  static void Move(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    Require(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "modify_qp");
  }

  int line_[2];
};

TEST_F(HeldPostsTest, AreSentIfTheProgramNeverPollsAgain) {
  ExpectPostsLeaveBefore([](ibv_qp*) {});
}

TEST_F(HeldPostsTest, AreSentBeforeTheQueuePairMovesToErr) {
  ExpectPostsLeaveBefore([](ibv_qp* qp) { Move(qp, IBV_QPS_ERR); });
}

TEST_F(HeldPostsTest, AreSentBeforeTheQueuePairIsReset) {
  ExpectPostsLeaveBefore([](ibv_qp* qp) { Move(qp, IBV_QPS_RESET); });
}

TEST_F(HeldPostsTest, AreSentBeforeTheQueuePairIsDestroyed) {
  ExpectPostsLeaveBefore([](ibv_qp* qp) { ibv_destroy_qp(qp); });
}

TEST_F(HeldPostsTest, AreSentBeforeExit) {
  ExpectPostsLeaveBefore([](ibv_qp*) { std::exit(EXIT_SUCCESS); });
}

TEST_F(HeldPostsTest, AreSentBeforeUnderscoreExit) {
  ExpectPostsLeaveBefore([](ibv_qp*) { _exit(EXIT_SUCCESS); });
}

TEST_F(HeldPostsTest, AreSentBeforeExec) {
  ExpectPostsLeaveBefore([](ibv_qp*) { execl("/bin/true", "true", nullptr); });
  ExpectPostsLeaveBefore([](ibv_qp*) { execlp("true", "true", nullptr); });
}

// Neither exec nor what it waits for is a point at which a thread is cancelled.
TEST_F(HeldPostsTest, ExecIsNoCancellationPoint) {
  const auto leave = [](ibv_qp*) {
    pthread_cancel(pthread_self());
    execl("/bin/true", "true", nullptr);
  };
  ExpectPostsLeaveBefore(leave, /*ends=*/true);
}

TEST_F(HeldPostsTest, AreSentBeforeTheProgramCrashes) {
  ExpectPostsLeaveBefore([](ibv_qp*) { raise(SIGSEGV); });
}

TEST_F(HeldPostsTest, AreSentBeforeAbort) {
  ExpectPostsLeaveBefore([](ibv_qp*) { std::abort(); });
}

TEST_F(HeldPostsTest, AreSentBeforeAnIllegalInstruction) {
  ExpectPostsLeaveBefore([](ibv_qp*) { __builtin_trap(); });
}

TEST_F(HeldPostsTest, AreSentBeforeTheConnectionEnds) {
  const pid_t receiver = Fork([this] {
    static Program program(kReceiver);
    static rdma_event_channel* channel = rdma_create_event_channel();
    static rdma_cm_id* listener = nullptr;
    Require(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0 &&
                Bind(listener, kReceiver.address, kPort) == 0 && rdma_listen(listener, 1) == 0,
            "no listener");
    Require(write(line_[0], ".", 1) == 1, "no sender");
    rdma_cm_id* const id = AwaitEvent(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    program.MakeQp(id);
    for (uint32_t i = 0; i < kPosts; ++i) program.Receive();
    rdma_conn_param param{};
    Require(rdma_accept(id, &param) == 0, "not accepted");
    for (uint32_t i = 0; i < kPosts; ++i) {
      Require(program.AwaitOne() == IBV_WC_RECV, "not a message");
    }
  });
  const pid_t sender = Fork([this] {
    static Program program(kSender);
    char ready = 0;
    Require(recv(line_[1], &ready, 1, MSG_WAITALL) == 1, "no receiver");
    rdma_cm_id* id = nullptr;
    Ipv4Address address(kReceiver.address, kPort);
    Require(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) == 0 &&
                rdma_resolve_addr(id, nullptr, address.get(), kResolveTimeoutMs) == 0 &&
                rdma_resolve_route(id, kResolveTimeoutMs) == 0,
            "no way");
    program.MakeQp(id);
    rdma_conn_param param{};
    Require(rdma_connect(id, &param) == 0, "not connected");
    for (uint32_t i = 0; i < kPosts; ++i) program.Send();
    Require(rdma_disconnect(id) == 0, "not disconnected");
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
  });
  EXPECT_EQ(Await(receiver), 0);
  EXPECT_EQ(Await(sender), 0);
}

// Programs count on it, as with an adapter: a request that comes before the completion of the last
// answer is one too many.
TEST_F(HeldPostsTest, ASendCompletesBeforeItsReplyIsReceived) {
  constexpr int kRounds = 1000;
  const auto run = [this](int side) {
    static Program program(side == 0 ? kReceiver : kSender);
    program.MakeQp();
    program.Connect(line_[side], side == 0 ? kSender : kReceiver);
    program.Receive();  // what comes before waits
    for (int round = 0; round < kRounds; ++round) {
      if (side == 1) {
        program.Send();
        Require(program.AwaitOne() == IBV_WC_SEND, "an answer to what is not sent yet");
      }
      Require(program.AwaitOne() == IBV_WC_RECV, "not a message");
      program.Receive();
      if (side == 0) {
        program.Send();
        Require(program.AwaitOne() == IBV_WC_SEND, "an answer to what is not sent yet");
      }
    }
  };
  const pid_t receiver = Fork([&run] { run(0); });
  const pid_t sender = Fork([&run] { run(1); });
  EXPECT_EQ(Await(receiver), 0);
  EXPECT_EQ(Await(sender), 0);
}

}  // namespace
}  // namespace pollux::compat
