// An RPC program for tests, and two nodes on a simulated network that use it.
#ifndef POLLUX_RPCRDMA_MIRROR_FOR_TEST_H_
#define POLLUX_RPCRDMA_MIRROR_FOR_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "cm/manager.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "stack/engine/eal.h"
#include "tests/sim/simulation.h"

namespace pollux::rpcrdma {

inline constexpr uint16_t kTestPort = 20049;
inline constexpr uint32_t kMirrorProgram = 0x20000099;
inline constexpr uint32_t kMaxItem = 1u << 20;
inline constexpr uint32_t kMaxEcho = 200'000;
inline constexpr uint32_t kManyItem = 100'000;

enum MirrorProcedure : uint32_t {
  kNull = 0,
  kEcho = 1,   // returns its arguments as results
  kPut = 2,    // word, opaque<> (eligible), word -> length, sum of bytes, first and last word
  kGet = 3,    // length -> word, opaque<> (eligible) of that length, word
  kHold = 4,   // answered by AnswerHeld()
  kDrop = 5,   // the handler sends no reply
  kMany = 6,   // three times word, opaque<> (eligible); returns its arguments
  kCount = 7,  // word -> number of runs, this one included; held if the word is 1
  kNote = 8,   // length, opaque<> (eligible) -> number of runs, opaque<> (eligible) of that length
  kStore = 9,  // word; held if hold_stores. Idempotent, and joins
  kGradual = 10,  // nothing -> opaque<> (eligible) supplied by the test
};

// All are idempotent except kCount and kNote.
inline oncrpc::ProgramBinding MirrorBinding() {
  oncrpc::ProgramBinding binding{
      .program = kMirrorProgram,
      .version = 1,
      .procedures = {
          {.number = kNull},
          {.number = kEcho, .max_argument_bytes = kMaxEcho, .max_result_bytes = kMaxEcho},
          {.number = kPut,
           .max_argument_bytes = 12,
           .max_eligible_argument_bytes = kMaxItem,
           .max_result_bytes = 16},
          {.number = kGet,
           .max_argument_bytes = 4,
           .max_result_bytes = 12,
           .max_eligible_result_bytes = kMaxItem},
          {.number = kHold},
          {.number = kDrop},
          {.number = kMany,
           .max_argument_bytes = 24,
           .max_eligible_argument_bytes = kManyItem,
           .max_result_bytes = 24,
           .max_eligible_result_bytes = kManyItem,
           .max_eligible_arguments = 3,
           .max_eligible_results = 3},
          {.number = kCount, .max_argument_bytes = 4, .max_result_bytes = 4},
          {.number = kNote,
           .max_argument_bytes = 8,
           .max_eligible_argument_bytes = kMaxItem,
           .max_result_bytes = 12,
           .max_eligible_result_bytes = kMaxItem},
          {.number = kStore, .max_argument_bytes = 4, .joins = true},
          {.number = kGradual, .max_result_bytes = 4, .max_eligible_result_bytes = kMaxItem}}};
  for (oncrpc::ProcedureBinding& procedure : binding.procedures) {
    procedure.idempotent = procedure.number != kCount && procedure.number != kNote;
  }
  return binding;
}

inline uint32_t SumOf(absl::Span<const uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint32_t{0});
}
inline uint8_t PatternAt(size_t i) { return static_cast<uint8_t>(i * 131 + (i >> 8)); }
inline std::vector<uint8_t> Pattern(size_t bytes) {
  std::vector<uint8_t> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = PatternAt(i);
  return out;
}

class MirrorServer {
 public:
  MirrorServer(engine::Worker* worker, cm::Manager* manager, const ServerConfig& config = {})
      : pattern_(Pattern(kMaxItem)) {
    server = *Server::Create(worker, manager, config);
    EXPECT_TRUE(server->RegisterProgram(MakeProgram()).ok());
    EXPECT_TRUE(server->Listen(kTestPort).ok());
  }
  void AnswerHeld() {
    for (ReplyHandle& handle : held) handle.Send({});
    held.clear();
  }

  std::unique_ptr<Server> server;
  // Answers each held kCount with the number of runs.
  void AnswerCounts() {
    for (ReplyHandle& handle : held_counts) handle.Send(Count());
    held_counts.clear();
  }

  // Answers the held kNote.
  void AnswerNote() {
    uint8_t space[8];
    oncrpc::XdrWriter out(absl::MakeSpan(space));
    out.Uint32(runs);
    out.EligibleOpaque(note_item_.bytes.size());
    held_counts.front().Send(out.bytes(), std::move(note_item_));
    held_counts.clear();
  }

  uint64_t last_connection = 0;  // on which kNull was called last
  bool hold_notes = false;
  bool hold_stores = false;
  std::vector<uint32_t> stores;  // words of kStore, in the order in which the calls started
  std::vector<ReplyHandle> held;
  std::vector<ReplyHandle> gradual;      // of kGradual
  std::vector<ReplyHandle> held_counts;  // of kCount, and of kNote if hold_notes
  int releases = 0;                      // of result items
  uint32_t runs = 0;                     // of kCount and kNote

 private:
  absl::Span<const uint8_t> Count() {
    StoreBe32(count_, runs);
    return count_;
  }
  Program MakeProgram() {
    Program program{.binding = MirrorBinding(), .procedures = {}};
    const auto add = [&program](uint32_t number, Handler handler) {
      program.procedures.push_back({number, std::move(handler)});
    };
    add(kNull, [this](const CallView& call, ReplyHandle reply) {
      last_connection = call.connection;
      reply.Send({});
    });
    add(kEcho, [](const CallView& call, ReplyHandle reply) { reply.Send(call.arguments); });
    add(kPut, [](const CallView& call, ReplyHandle reply) {
      oncrpc::XdrReader in = call.reader();
      const uint32_t first = in.Uint32();
      const absl::Span<const uint8_t> item = in.EligibleOpaque(kMaxItem);
      const uint32_t last = in.Uint32();
      if (!in.AtEnd()) return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
      uint8_t space[16];
      oncrpc::XdrWriter out(absl::MakeSpan(space));
      out.Uint32(static_cast<uint32_t>(item.size()));
      out.Uint32(SumOf(item));
      out.Uint32(first);
      out.Uint32(last);
      reply.Send(out.bytes());
    });
    add(kGet, [this](const CallView& call, ReplyHandle reply) {
      oncrpc::XdrReader in = call.reader();
      const uint32_t length = in.Uint32();
      if (!in.AtEnd() || length > kMaxItem)
        return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
      uint8_t space[12];
      oncrpc::XdrWriter out(absl::MakeSpan(space));
      out.Uint32(0x11111111);
      const size_t position = out.EligibleOpaque(length);
      out.Uint32(0x22222222);
      ResultItem item{.bytes = absl::MakeConstSpan(pattern_).first(length),
                      .position = position,
                      .release = [this] { ++releases; }};
      reply.Send(out.bytes(), std::move(item));
    });
    add(kHold, [this](const CallView&, ReplyHandle reply) { held.push_back(std::move(reply)); });
    add(kGradual,
        [this](const CallView&, ReplyHandle reply) { gradual.push_back(std::move(reply)); });
    add(kDrop, [](const CallView&, ReplyHandle) {});
    add(kMany, [this](const CallView& call, ReplyHandle reply) {
      oncrpc::XdrReader in = call.reader();
      uint8_t space[24];
      oncrpc::XdrWriter out(absl::MakeSpan(space));
      ResultItem items[3];
      for (ResultItem& item : items) {
        out.Uint32(in.Uint32());
        const absl::Span<const uint8_t> bytes = in.EligibleOpaque(kManyItem);
        auto copy = std::make_shared<std::vector<uint8_t>>(bytes.begin(), bytes.end());
        item = {.bytes = *copy,
                .position = out.EligibleOpaque(copy->size()),
                .release = [this, copy] { ++releases; }};
      }
      if (!in.AtEnd()) return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
      reply.Send(out.bytes(), absl::MakeSpan(items));
    });
    add(kCount, [this](const CallView& call, ReplyHandle reply) {
      oncrpc::XdrReader in = call.reader();
      const bool hold = in.Uint32() == 1;
      ++runs;
      if (hold) return held_counts.push_back(std::move(reply));
      reply.Send(Count());
    });
    add(kNote, [this](const CallView& call, ReplyHandle reply) {
      oncrpc::XdrReader in = call.reader();
      const uint32_t length = in.Uint32();
      in.EligibleOpaque(kMaxItem);
      if (!in.AtEnd() || length > kMaxItem)
        return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
      ++runs;
      uint8_t space[8];
      oncrpc::XdrWriter out(absl::MakeSpan(space));
      out.Uint32(runs);
      const size_t position = out.EligibleOpaque(length);
      note_item_ = {.bytes = absl::MakeConstSpan(pattern_).first(length),
                    .position = position,
                    .release = [this] { ++releases; }};
      if (hold_notes) return held_counts.push_back(std::move(reply));
      reply.Send(out.bytes(), std::move(note_item_));
    });
    add(kStore, [this](const CallView& call, ReplyHandle reply) {
      stores.push_back(call.reader().Uint32());
      if (hold_stores) return held.push_back(std::move(reply));
      reply.Send({});
    });
    return program;
  }

  std::vector<uint8_t> pattern_;
  uint8_t count_[4];
  ResultItem note_item_;
};

// Takes all regions that a worker has left, and returns them when destroyed.
class AllRegions {
 public:
  explicit AllRegions(engine::Worker* worker) : worker_(worker), pd_(*worker->AllocPd()) {
    for (auto region = Take(); region.ok(); region = Take()) taken_.push_back(*region);
    EXPECT_GT(taken_.size(), 100u);
  }
  ~AllRegions() {
    while (!taken_.empty()) GiveOneBack();
    EXPECT_TRUE(worker_->DeallocPd(pd_).ok());
  }
  void GiveOneBack() {
    EXPECT_TRUE(worker_->DeregMr(taken_.back()).ok());
    taken_.pop_back();
  }

 private:
  absl::StatusOr<memory::MemoryRegion> Take() { return worker_->RegMr(pd_, &byte_, 1, 0); }

  engine::Worker* worker_;
  memory::ProtectionDomain* pd_;
  uint8_t byte_ = 0;
  std::vector<memory::MemoryRegion> taken_;
};

// Two nodes with CM. Node 0 is for clients, node 1 for the server.
class MirrorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal({.huge_pages = engine::EalOptions::HugePages::kNever}).ok());
  }

  void StartSimulation(uint64_t seed = 1, const sim::Conditions& conditions = {},
                       const sim::NodeOptions& options = {}) {
    world = std::make_unique<sim::Simulation>(seed, conditions);
    for (int i = 0; i < 2; ++i) nodes[i] = &world->AddNode(options);
    for (int i = 0; i < 2; ++i) managers[i] = *cm::Manager::Create(&nodes[i]->worker());
  }
  void StartServer(const ServerConfig& config = {}) {
    server = std::make_unique<MirrorServer>(&nodes[1]->worker(), managers[1].get(), config);
  }
  void StartClient(const ClientConfig& config = {},
                   oncrpc::ProgramBinding binding = MirrorBinding()) {
    auto made = Client::Create(&nodes[0]->worker(), managers[0].get(), binding, config);
    ASSERT_TRUE(made.ok()) << made.status();
    client = *std::move(made);
  }
  void ConnectClient() {
    std::optional<absl::Status> status;
    ended.reset();
    ASSERT_TRUE(client
                    ->Connect(
                        {nodes[1]->gid(), kTestPort}, [&status](absl::Status s) { status = s; },
                        [this](absl::Status s) { ended = s; })
                    .ok());
    EXPECT_FALSE(status.has_value());
    ASSERT_TRUE(RunUntil([&] { return status.has_value(); }));
    ASSERT_TRUE(status->ok()) << *status;
  }
  void StartAll() {
    StartSimulation();
    StartServer();
    StartClient();
    ConnectClient();
  }
  void TearDown() override {
    if (client != nullptr && (client->connected() || client->reconnecting())) {
      client->Disconnect();
      EXPECT_TRUE(RunUntil([this] { return ended.has_value(); }));
    }
    client.reset();
    server.reset();
    for (auto& manager : managers) manager.reset();
    if (world != nullptr) {
      EXPECT_EQ(world->Leaks(), "");
    }
    world.reset();
  }
  bool RunUntil(const std::function<bool()>& done) {
    return world->RunUntil(done, world->now_ns() + 300 * sim::Simulation::kSecond);
  }

  // Run(), Echo(), Put() and Get() each make one call and wait for its end.
  absl::Status Run(const oncrpc::CallRequest& request,
                   std::function<void(const oncrpc::Reply&)> on_reply = {}) {
    std::optional<absl::Status> status;
    absl::Status s = client->Call(request, [&](absl::Status result, const oncrpc::Reply* reply) {
      EXPECT_FALSE(status.has_value());
      // RFC 8166 section 4.4.1
      EXPECT_EQ(client->advertised_regions(), 0u);
      if (result.ok() && on_reply) on_reply(*reply);
      status = result;
    });
    if (!s.ok()) return s;
    EXPECT_FALSE(status.has_value());
    if (!RunUntil([&] { return status.has_value(); })) return absl::UnknownError("never called");
    return *status;
  }
  void Echo(size_t bytes) {
    const std::vector<uint8_t> arguments = Pattern(bytes);
    std::vector<uint8_t> reply_buffer(oncrpc::kReplyHeaderBytes + bytes);
    const absl::Status status = Run({.procedure = kEcho,
                                     .arguments = arguments,
                                     .reply_buffer = absl::MakeSpan(reply_buffer),
                                     .max_result_bytes = static_cast<uint32_t>(bytes)},
                                    [&](const oncrpc::Reply& reply) {
                                      EXPECT_EQ(reply.results, absl::MakeConstSpan(arguments));
                                    });
    EXPECT_TRUE(status.ok()) << bytes << ": " << status;
  }
  absl::Status Put(size_t bytes) {
    const std::vector<uint8_t> item = Pattern(bytes);
    uint8_t space[12];
    oncrpc::XdrWriter out(absl::MakeSpan(space));
    out.Uint32(0xAAAAAAAA);
    const size_t position = out.EligibleOpaque(bytes);
    out.Uint32(0xBBBBBBBB);
    const oncrpc::EligibleItem argument{item, position};
    return Run({.procedure = kPut, .arguments = out.bytes(), .items = {&argument, 1}},
               [&](const oncrpc::Reply& reply) {
                 oncrpc::XdrReader in = reply.reader();
                 EXPECT_EQ(in.Uint32(), bytes);
                 EXPECT_EQ(in.Uint32(), SumOf(item));
                 EXPECT_EQ(in.Uint32(), 0xAAAAAAAAu);
                 EXPECT_EQ(in.Uint32(), 0xBBBBBBBBu);
                 EXPECT_TRUE(in.AtEnd());
               });
  }
  // Uses a Write chunk of `room` bytes, followed by guard bytes that must not change.
  absl::Status Get(size_t bytes, size_t room) {
    std::vector<uint8_t> buffer(room + 64, 0xEE);
    const absl::Span<uint8_t> item_buffer = absl::MakeSpan(buffer).first(room);
    uint8_t argument[4];
    StoreBe32(argument, static_cast<uint32_t>(bytes));
    absl::Status status =
        Run({.procedure = kGet, .arguments = argument, .item_buffers = {&item_buffer, 1}},
            [&](const oncrpc::Reply& reply) {
              oncrpc::XdrReader in = reply.reader();
              EXPECT_EQ(in.Uint32(), 0x11111111u);
              EXPECT_EQ(in.EligibleOpaque(kMaxItem), absl::MakeConstSpan(Pattern(bytes)));
              EXPECT_EQ(in.Uint32(), 0x22222222u);
              EXPECT_TRUE(in.AtEnd());
            });
    for (size_t i = room; i < buffer.size(); ++i) EXPECT_EQ(buffer[i], 0xEE);
    return status;
  }

  std::unique_ptr<sim::Simulation> world;
  sim::Node* nodes[2] = {};
  std::unique_ptr<cm::Manager> managers[2];
  std::unique_ptr<MirrorServer> server;
  std::unique_ptr<Client> client;
  std::optional<absl::Status> ended;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_MIRROR_FOR_TEST_H_
