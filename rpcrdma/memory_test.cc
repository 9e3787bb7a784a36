// What memory peers make a server take, and what becomes of them when there is none.
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "rpcrdma/hostile_client_for_test.h"
#include "stack/base/memory_reserve.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POLLUX_HEAP_OF_ANOTHER 1
#endif

namespace {

// Of the allocations that are made while it watches, the one numbered `failing` fails.
struct Heap {
  bool watches = false;
  uint64_t count = 0;
  uint64_t failing = UINT64_MAX;
  bool has_failed = false;
};
Heap heap;

[[maybe_unused]] bool Fails() {
  if (!heap.watches || heap.count++ != heap.failing) return false;
  heap.has_failed = true;
  return true;
}

}  // namespace

#ifndef POLLUX_HEAP_OF_ANOTHER
extern "C" {
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

// As the library's, whose heap has nothing the first time.
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (Fails()) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) std::abort();
    handler();
  }
  void* const memory = __libc_memalign(static_cast<size_t>(alignment), std::max<size_t>(bytes, 1));
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(size_t bytes) {
  return operator new (bytes, std::align_val_t{__STDCPP_DEFAULT_NEW_ALIGNMENT__});
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

extern "C" {
[[gnu::visibility("default")]] void* calloc(size_t count, size_t bytes) noexcept {
  return Fails() ? nullptr : __libc_calloc(count, bytes);
}
[[gnu::visibility("default")]] void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return Fails() ? nullptr : __libc_memalign(alignment, bytes);
}
}
#endif

namespace pollux::rpcrdma {
namespace {

constexpr size_t kKiB = 1024;

// 0 where the heap is a sanitizer's.
size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class MemoryTest : public HostileClientTest {
 protected:
  MemoryTest() { EXPECT_TRUE(MemoryReserve::Fill()); }

  // Asks for a connection and does not go through with it.
  cm::Id* AskForOne() {
    cm::Id* const id = *managers[0]->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) {
      most_bytes_ = std::max(most_bytes_, BytesInUse());
      if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
        EXPECT_TRUE(managers[0]->ResolveRoute(event.id, 1000).ok());
      } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
        // A queue pair that CM does not know: the RTU is this test's to send.
        EXPECT_TRUE(managers[0]->Connect(event.id, {.qp_num = next_qpn_++}).ok());
      } else if (event.type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        ++answered_;
      } else if (event.type == RDMA_CM_EVENT_REJECTED) {
        ++rejected_;
      }
    });
    EXPECT_TRUE(managers[0]->ResolveAddr(id, {nodes[1]->gid(), kTestPort}, 1000).ok());
    return id;
  }
  void Flood(uint64_t requests) {
    std::vector<cm::Id*> ids;
    answered_ = rejected_ = 0;
    for (uint64_t i = 0; i < requests; ++i) ids.push_back(AskForOne());
    // One that has given way to another has been answered before.
    EXPECT_TRUE(RunUntil([&] { return answered_ == requests; }));
    for (cm::Id* id : ids) managers[0]->DestroyId(id);
    EXPECT_TRUE(RunUntil([this] { return server->server->connections() == 0; }));
    world->RunFor(300 * sim::Simulation::kSecond);
  }

  uint32_t next_qpn_ = 0x1000;
  uint64_t answered_ = 0;
  uint64_t rejected_ = 0;
  size_t most_bytes_ = 0;
};

TEST_F(MemoryTest, AConnectRequestAllocatesNoReceiveBuffers) {
  constexpr uint32_t kInline = 16 * kKiB;
  StartSimulation();
  StartServer({.credits = 256, .send_bytes = kInline, .receive_bytes = kInline});
  const size_t before = BytesInUse();
  cm::Id* const id = AskForOne();
  ASSERT_TRUE(RunUntil([this] { return answered_ == 1; }));
  EXPECT_EQ(server->server->connections(), 1u);
  EXPECT_LT(BytesInUse(), before + 256 * kKiB);
  managers[0]->DestroyId(id);
  ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 0; }));
}

TEST_F(MemoryTest, AFloodTakesBoundedMemoryAndReleasesIt) {
  constexpr uint32_t kHalfOpen = 16, kRequests = 400;
  constexpr uint32_t kUnderWay = 64;  // requests that CM has unanswered at once
  StartSimulation();
  StartServer({.max_half_open = kHalfOpen});
  const size_t before = BytesInUse();
  Flood(kRequests);
  EXPECT_LT(most_bytes_, before + (kHalfOpen + kUnderWay) * 160 * kKiB + kRequests * 8 * kKiB);
  // Tables stay as large as they were at most.
  EXPECT_LT(BytesInUse(), before + 512 * kKiB);
  const size_t after = BytesInUse();
  Flood(kRequests);
  EXPECT_LT(BytesInUse(), after + 16 * kKiB);
  // The others gave way.
  EXPECT_GE(rejected_, kRequests - kHalfOpen - kUnderWay);
}

// Each request gets a queue pair, which is free again when the request has given way.
TEST_F(MemoryTest, AFloodLeavesQueuePairs) {
  StartSimulation(1, {}, {.max_queue_pairs = 128});
  StartServer({.max_half_open = 16});
  Flood(400);
}

// A client that is quick sends its first call beside its RTU, and does not repeat what finds no
// receive. RFC 8166 section 3.3.1 and section 3.3.3
TEST_F(MemoryTest, TheFirstCallFindsAPostedReceive) {
  StartSimulation();
  StartServer();
  for (uint32_t i = 0; i < 20; ++i) {
    hostile = NewPeer();
    EXPECT_FALSE(Ask(WithXid(MessageOf(HeaderOf(), MirrorCall(kNull)), i)).empty());
  }
  EXPECT_EQ(nodes[1]->worker().counters().send_rnr_err, 0u);
  // As many receives are there as before, however many calls came.
  for (uint32_t i = 0; i < 200; ++i) ExpectServed();
  EXPECT_EQ(nodes[1]->worker().counters().send_rnr_err, 0u);
}

TEST_F(MemoryTest, ShortMemoryRefusesConnectionsAndServesCalls) {
  StartHostile();
  ExpectServed();  // the server has its RTU
  {
    const MemoryReserve::ShortageForTest shortage;
    ASSERT_TRUE(MemoryReserve::GiveUpPiece());
    AskForOne();
    ASSERT_TRUE(RunUntil([this] { return rejected_ == 1; }));
    EXPECT_EQ(server->server->connections(), 2u);
    ExpectServed();
    ExpectTheOtherClientIsServed();
  }
  const std::unique_ptr<RawPeer> another = NewPeer();
  EXPECT_EQ(server->server->connections(), 3u);
}

// One that runs out between REP and RTU costs the connection.
TEST_F(MemoryTest, ShortMemoryEndsAConnectionBeforeItIsEstablished) {
  StartHostile();
  {
    const MemoryReserve::ShortageForTest shortage;
    ASSERT_TRUE(MemoryReserve::GiveUpPiece());
    ASSERT_TRUE(RunUntil([this] { return hostile->ended(); }));
    EXPECT_EQ(counters().connections_refused, 1u);
    ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
    ExpectTheOtherClientIsServed();
  }
  hostile = NewPeer();
  ExpectServed();
}

TEST_F(MemoryTest, VeryShortMemoryDelaysCalls) {
  StartHostile();
  ExpectServed();
  hostile->received.clear();
  {
    const MemoryReserve::ShortageForTest shortage;
    while (!MemoryReserve::IsLow()) ASSERT_TRUE(MemoryReserve::GiveUpPiece());
    hostile->Send(MessageOf(HeaderOf(), MirrorCall(kNull)));
    world->RunFor(2 * sim::Simulation::kSecond);
    EXPECT_TRUE(hostile->received.empty());
  }
  EXPECT_TRUE(RunUntil([this] { return !hostile->received.empty(); }));
  ExpectTheOtherClientIsServed();
}

// Or their memory would stay in use, and memory would stay short.
TEST_F(MemoryTest, VeryShortMemoryEndsConnectionsOfVanishedClients) {
  StartHostile();
  ExpectServed();
  const MemoryReserve::ShortageForTest shortage;
  while (!MemoryReserve::IsLow()) ASSERT_TRUE(MemoryReserve::GiveUpPiece());
  nodes[0]->port().SetUp(false);
  EXPECT_TRUE(world->RunUntil([this] { return server->server->connections() == 0; },
                              world->now_ns() + 120 * sim::Simulation::kSecond));
  nodes[0]->port().SetUp(true);
}

// Says, among the pollers of a worker, whose turn it is.
class AllocationWatch : public engine::Poller {
 public:
  AllocationWatch(engine::Worker* worker, bool watches) : worker_(worker), watches_(watches) {
    worker_->AddPoller(this);
  }
  ~AllocationWatch() override {
    worker_->RemovePoller(this);
    heap.watches = false;
  }
  bool Poll(uint64_t /*now_ns*/) override {
    heap.watches = watches_;
    return false;
  }

 private:
  engine::Worker* worker_;
  bool watches_;
};

// Whether the one that fails is the last for a time.
class FailingHeapTest : public MemoryTest, public testing::WithParamInterface<bool> {};

// Of all that the server allocates from a client's REQ to the end of its connection, calls between
// them, each in turn.
TEST_P(FailingHeapTest, EveryAllocationCausedByAClientMayFail) {
#ifdef POLLUX_HEAP_OF_ANOTHER
  GTEST_SKIP() << "sanitizers have an operator new of their own";
#endif
  StartHostile();
  hostile.reset();
  const AllocationWatch clients(&nodes[0]->worker(), /*watches=*/true);
  const AllocationWatch servers(&nodes[1]->worker(), /*watches=*/false);
  uint64_t n = 0;
  int unserved = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE(n);
    ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
    {
      std::optional<MemoryReserve::ShortageForTest> shortage;
      if (GetParam()) shortage.emplace();
      heap = {.failing = n};
      hostile = std::make_unique<RawPeer>(&nodes[0]->worker(), managers[0].get());
      hostile->Connect({nodes[1]->gid(), kTestPort});
      ASSERT_TRUE(RunUntil([this] { return hostile->connected() || hostile->ended(); }));
      Header put = HeaderOf(), get = HeaderOf();
      put.chunks.AddRead(kCallBytes + 8, hostile->SegmentAt(0, 4096));
      const Segment room = hostile->SegmentAt(4096, 4096);
      get.chunks.AddWriteChunk({&room, 1});
      if (!hostile->ended()) {
        Ask(WithXid(MessageOf(put, MirrorCall(kPut, Words({1, 4096, 2}))), 3 * n));
      }
      if (!hostile->ended()) {
        Ask(WithXid(MessageOf(get, MirrorCall(kGet, Words({4096}))), 3 * n + 1));
      }
      if (!hostile->ended()) {
        Ask(WithXid(MessageOf(HeaderOf(), MirrorCall(kCount, Words({0}))), 3 * n + 2));
      }
      unserved += hostile->ended() ? 1 : 0;
      ExpectTheOtherClientIsServed();
      hostile.reset();
      ASSERT_TRUE(RunUntil([this] { return server->server->connections() == 1; }));
      failed = heap.has_failed;
      heap = {};
    }
    ASSERT_TRUE(MemoryReserve::IsWhole());
  }
  // The queues and buffers of a connection, at least, are refused.
  EXPECT_GE(unserved, 5);
  EXPECT_GT(n, 20u);
  hostile = NewPeer();
  ExpectServed();
}

INSTANTIATE_TEST_SUITE_P(Failures, FailingHeapTest, testing::Bool(), [](const auto& info) {
  return info.param ? "EveryLaterOneFails" : "TheNextOneSucceeds";
});

}  // namespace
}  // namespace pollux::rpcrdma
