// In steady state the packet path takes nothing from the heap and makes no system call.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "cm/manager.h"
#include "rpcrdma/client.h"
#include "rpcrdma/mirror_for_test.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "tests/packet_path/meters.h"

namespace pollux::packet_path {
namespace {

constexpr uint64_t kTurnNs = 2'000;
constexpr uint32_t kDepth = 64;
constexpr uint32_t kBufferBytes = 1u << 20;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// Two devices on the embedded wire, polled by this thread in turn, in virtual time.
class PacketPathTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal({.huge_pages = engine::EalOptions::HugePages::kNever}).ok());
  }
  void SetUp() override {
    if (const absl::Status available = Meters::Available(); !available.ok()) {
      GTEST_SKIP() << available.message();
    }
    meters_ = std::make_unique<Meters>();
    auto opened = engine::Device::OpenPair({.addresses = {InterfaceAddress::Ipv4(0xC0000201)}},
                                           {.addresses = {InterfaceAddress::Ipv4(0xC0000202)}});
    ASSERT_TRUE(opened.ok()) << opened.status();
    pair_ = *std::move(opened);
    now_ns_ = std::max(worker(0).now_ns(), worker(1).now_ns());
  }
  void TearDown() override {
    meters_.reset();
    if (pair_.first == nullptr) return;
    pair_.first->Close();
    pair_.second->Close();
  }

  engine::Device& device(int i) { return i == 0 ? *pair_.first : *pair_.second; }
  engine::Worker& worker(int i) { return device(i).worker(); }

  void Turn() {
    now_ns_ += kTurnNs;
    worker(0).Poll(now_ns_);
    worker(1).Poll(now_ns_);
  }
  template <class Done>
  bool RunUntil(Done done) {
    for (int turns = 0; turns < 5'000'000; ++turns) {
      if (done()) return true;
      Turn();
    }
    return false;
  }
  // Runs `step` and a turn `turns` times, first without counting, then counted.
  template <class Step>
  void ExpectClean(int turns, Step step) {
    for (int i = 0; i < turns; ++i) {
      step();
      Turn();
    }
    // Before, what waited for the neighbour to be found may have been sent again.
    const uint64_t retransmitted = worker(0).counters().retransmitted_pkts;
    meters_->Start();
    for (int i = 0; i < turns; ++i) {
      meters_->Mark();
      step();
      Turn();
    }
    meters_->Stop();
    EXPECT_EQ(meters_->allocations(), 0u)
        << "the last of " << meters_->last_allocation_bytes() << " bytes";
    EXPECT_EQ(meters_->system_calls(), 0u) << "the last: number " << meters_->last_system_call();
    EXPECT_EQ(worker(0).counters().retransmitted_pkts, retransmitted) << "no steady state";
  }

  std::unique_ptr<Meters> meters_;
  engine::Device::Pair pair_;
  uint64_t now_ns_ = 0;
};

TEST_F(PacketPathTest, MetersCountAllocationsAndSystemCalls) {
  // By pointers that the compiler cannot see through: it may leave out what is given back unused.
  void* (*volatile take)(size_t) = &std::malloc;
  void* (*volatile take_many)(size_t, size_t) = &std::calloc;
  void* (*volatile take_more)(void*, size_t) = &std::realloc;
  void (*volatile give)(void*) = &std::free;
  void* (*volatile make)(size_t) = &::operator new;
  void (*volatile give_new)(void*) = &::operator delete;
  meters_->Start();
  give(take(77));
  give_new(make(4));
  give(take_more(take_many(3, 5), 99));
  for (int i = 0; i < 3; ++i) {
    meters_->Mark();
    EXPECT_EQ(syscall(SYS_getppid), getppid());
  }
  meters_->Stop();
  EXPECT_EQ(meters_->allocations(), 4u);
  EXPECT_EQ(meters_->last_allocation_bytes(), 99u);
  EXPECT_EQ(meters_->system_calls(), 3u);
  EXPECT_EQ(meters_->last_system_call(), SYS_getppid);
  meters_->Start();
  meters_->Stop();
  EXPECT_EQ(meters_->allocations(), 0u);
  EXPECT_EQ(meters_->system_calls(), 0u);
}

// One end of a reliable connection, connected by hand.
struct End {
  explicit End(engine::Device& d) : device(d), worker(d.worker()) {
    pd = *worker.AllocPd();
    cq = *worker.CreateCq(4 * kDepth);
    region = *worker.RegMr(pd, buffer.data(), buffer.size(), kAccess);
    verbs::QueuePairInitAttr init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = kDepth,
                .max_recv_wr = kDepth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64};
    qp = *worker.CreateQp(std::move(init));
  }
  ~End() {
    EXPECT_TRUE(worker.DestroyQp(qp).ok());
    EXPECT_TRUE(worker.DestroyCq(cq).ok());
    EXPECT_TRUE(worker.DeregMr(region).ok());
    EXPECT_TRUE(worker.DeallocPd(pd).ok());
  }
  void Connect(const End& peer) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    attr.path_mtu = worker.interface().active_mtu();
    attr.dest_qp_num = peer.qp->qpn().value;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
    attr.timeout = 17;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.sgid_index = device.gid_index();
    const Gid gid = peer.device.gid();
    std::memcpy(attr.ah_attr.grh.dgid.raw, gid.raw.data(), 16);
    const std::pair<ibv_qp_state, int> steps[] = {
        {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
        {IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
        {IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC}};
    for (const auto& [state, mask] : steps) {
      attr.qp_state = state;
      const absl::Status status = worker.ModifyQp(qp, attr, mask | IBV_QP_STATE);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  bool Receive(uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()), bytes, region.key};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return qp->PostRecv(&wr, nullptr) == 0;
  }
  bool Post(ibv_wr_opcode opcode, uint32_t bytes, const End& peer) {
    ibv_sge sge{reinterpret_cast<uint64_t>(buffer.data()), bytes, region.key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(peer.buffer.data());
    wr.wr.rdma.rkey = peer.region.key;
    return qp->PostSend(&wr, nullptr) == 0;
  }

  engine::Device& device;
  engine::Worker& worker;
  memory::ProtectionDomain* pd;
  verbs::CompletionQueue* cq;
  verbs::QueuePair* qp;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBufferBytes, 1);
  memory::MemoryRegion region;
};

class VerbsTest : public PacketPathTest {
 protected:
  // Keeps `window` work requests of a's posted, and a receive for each at b.
  void ExpectCleanStream(ibv_wr_opcode opcode, uint32_t bytes, uint32_t window, int turns) {
    End a(device(0)), b(device(1));
    a.Connect(b);
    b.Connect(a);
    const bool receives = opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    while (receives && b.Receive(bytes)) {
    }
    uint32_t posted = 0;
    uint64_t completed = 0, failed = 0;
    ExpectClean(turns, [&] {
      ibv_wc wc[kDepth];
      for (int n = a.cq->Poll(kDepth, wc), i = 0; i < n; ++i) {
        failed += wc[i].status != IBV_WC_SUCCESS;
        --posted;
        ++completed;
      }
      for (int n = b.cq->Poll(kDepth, wc), i = 0; i < n; ++i) {
        failed += wc[i].status != IBV_WC_SUCCESS || !b.Receive(bytes);
      }
      while (posted < window && a.Post(opcode, bytes, b)) ++posted;
    });
    EXPECT_EQ(failed, 0u);
    // Data did move.
    EXPECT_GT(completed, static_cast<uint64_t>(turns) / 64);
  }
};

TEST_F(VerbsTest, SmallSendsNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_SEND, 64, 32, 5000);
}
TEST_F(VerbsTest, LongSendsNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_SEND, 100'000, 4, 5000);
}
TEST_F(VerbsTest, SmallWritesNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_RDMA_WRITE, 64, 32, 5000);
}
TEST_F(VerbsTest, LongWritesNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_RDMA_WRITE, 1 << 20, 2, 5000);
}
TEST_F(VerbsTest, WritesWithImmediateNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_RDMA_WRITE_WITH_IMM, 5000, 8, 5000);
}
TEST_F(VerbsTest, SmallReadsNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_RDMA_READ, 64, 16, 5000);
}
TEST_F(VerbsTest, LongReadsNeedNoAllocationOrSystemCall) {
  ExpectCleanStream(IBV_WR_RDMA_READ, 1 << 20, 2, 5000);
}

// A client and a server with all that hangs in their workers' loops.
class RpcTest : public PacketPathTest {
 protected:
  void SetUp() override {
    PacketPathTest::SetUp();
    if (IsSkipped()) return;
    for (int i = 0; i < 2; ++i) managers_[i] = *cm::Manager::Create(&worker(i));
    server_ = std::make_unique<rpcrdma::MirrorServer>(&worker(1), managers_[1].get());
    client_ = *rpcrdma::Client::Create(&worker(0), managers_[0].get(), rpcrdma::MirrorBinding());
    std::optional<absl::Status> connected;
    ASSERT_TRUE(client_
                    ->Connect(
                        {device(1).gid(), rpcrdma::kTestPort},
                        [&connected](absl::Status status) { connected = status; }, nullptr)
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return connected.has_value(); }));
    ASSERT_TRUE(connected->ok()) << *connected;
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    for (auto& manager : managers_) manager.reset();
    PacketPathTest::TearDown();
  }
  // Keeps `window` calls like `request` outstanding.
  void ExpectCleanCalls(const oncrpc::CallRequest& request, uint32_t window, int turns) {
    // What a callback holds must fit into AnyInvocable itself: one pointer.
    struct Tally {
      uint32_t outstanding = 0;
      uint64_t done = 0;
      uint64_t failed = 0;
    } tally;
    ExpectClean(turns, [&] {
      while (tally.outstanding < window) {
        const absl::Status status =
            client_->Call(request, [t = &tally](absl::Status result, const oncrpc::Reply*) {
              --t->outstanding;
              ++t->done;
              t->failed += !result.ok();
            });
        if (!status.ok()) {
          ++tally.failed;
          break;
        }
        ++tally.outstanding;
      }
    });
    ASSERT_TRUE(RunUntil([&] { return tally.outstanding == 0; }));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_GT(tally.done, static_cast<uint64_t>(turns) / 64);
  }

  std::unique_ptr<cm::Manager> managers_[2];
  std::unique_ptr<rpcrdma::MirrorServer> server_;
  std::unique_ptr<rpcrdma::Client> client_;
};

TEST_F(RpcTest, NullCallsNeedNoAllocationOrSystemCall) {
  ExpectCleanCalls({.procedure = rpcrdma::kNull}, 16, 5000);
}

TEST_F(RpcTest, NullCallsWithATimeoutNeedNoAllocationOrSystemCall) {
  ExpectCleanCalls({.procedure = rpcrdma::kNull, .timeout_ns = 1'000'000'000}, 16, 5000);
}

// Remembered with their replies, and forgotten as new ones come.
TEST_F(RpcTest, NonIdempotentCallsNeedNoAllocationOrSystemCall) {
  const uint8_t argument[4] = {};
  ExpectCleanCalls({.procedure = rpcrdma::kCount, .arguments = argument}, 16, 5000);
  EXPECT_GT(server_->runs, 2 * rpcrdma::ServerConfig{}.cached_replies);
}

TEST_F(RpcTest, ReadChunksNeedNoAllocationOrSystemCall) {
  std::vector<uint8_t> item = rpcrdma::Pattern(100'000);
  uint8_t space[12];
  oncrpc::XdrWriter out(absl::MakeSpan(space));
  out.Uint32(1);
  const size_t position = out.EligibleOpaque(item.size());
  out.Uint32(2);
  const oncrpc::EligibleItem argument{item, position};
  ExpectCleanCalls({.procedure = rpcrdma::kPut, .arguments = out.bytes(), .items = {&argument, 1}},
                   4, 3000);
}

TEST_F(RpcTest, WriteChunksNeedNoAllocationOrSystemCall) {
  uint8_t argument[4];
  StoreBe32(argument, 100'000);
  std::vector<uint8_t> room(100'000);
  const absl::Span<uint8_t> buffer = absl::MakeSpan(room);
  ExpectCleanCalls(
      {.procedure = rpcrdma::kGet, .arguments = argument, .item_buffers = {&buffer, 1}}, 4, 3000);
}

TEST_F(RpcTest, LongCallsAndRepliesNeedNoAllocationOrSystemCall) {
  const std::vector<uint8_t> arguments = rpcrdma::Pattern(20'000);
  std::vector<uint8_t> reply(oncrpc::kReplyHeaderBytes + arguments.size());
  ExpectCleanCalls({.procedure = rpcrdma::kEcho,
                    .arguments = arguments,
                    .reply_buffer = absl::MakeSpan(reply),
                    .max_result_bytes = static_cast<uint32_t>(arguments.size())},
                   1, 3000);
}

}  // namespace
}  // namespace pollux::packet_path
