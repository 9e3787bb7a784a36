#include "nfs/client/client.h"

#include <functional>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "nfs/client/memory_server_for_test.h"
#include "nfs/v3/status.h"
#include "stack/engine/eal.h"
#include "tests/sim/simulation.h"

namespace pollux::nfs {
namespace {

constexpr uint64_t kSecond = sim::Simulation::kSecond;

class ClientTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(engine::InitEal({.huge_pages = engine::EalOptions::HugePages::kNever}).ok());
  }
  void Start(const ClientConfig& config = {}) {
    for (int i = 0; i < 2; ++i) nodes_[i] = &world_.AddNode();
    for (int i = 0; i < 2; ++i) managers_[i] = *cm::Manager::Create(&nodes_[i]->worker());
    StartServer();
    const oncrpc::AuthSys me{.machinename = {"here"}, .uid = 1};
    client_ = *Client::Create(&nodes_[0]->worker(), managers_[0].get(), me, config);
    std::optional<absl::Status> connected;
    ASSERT_TRUE(client_
                    ->Connect({.address = nodes_[1]->gid(), .port = kNfsRdmaPort},
                              [&](absl::Status status) { connected = status; })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return connected.has_value(); }));
    ASSERT_TRUE(connected->ok()) << *connected;
  }
  void StartServer() {
    auto server = files_.Listen(&nodes_[1]->worker(), managers_[1].get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    if (client_ != nullptr) {
      bool gone = false;
      client_->Disconnect([&] { gone = true; });
      EXPECT_TRUE(RunUntil([&] { return gone; }));
    }
    client_.reset();
    server_.reset();
    for (auto& manager : managers_) manager.reset();
    EXPECT_EQ(world_.Leaks(), "");
  }
  bool RunUntil(const std::function<bool()>& done) {
    return world_.RunUntil(done, world_.now_ns() + 300 * kSecond);
  }
  // One call to its end; `look` sees results of any status.
  template <class Res, class Args>
  absl::Status Run(Procedure procedure, const Args& arguments, std::function<void(const Res&)> look,
                   const Client::Room& room = {}) {
    std::optional<absl::Status> done;
    client_->Call<Res>(procedure, arguments, room, [&](absl::Status status, const Res* results) {
      EXPECT_FALSE(done.has_value());
      EXPECT_EQ(status.ok(), results != nullptr);
      if (results != nullptr) look(*results);
      done = status;
    });
    EXPECT_FALSE(done.has_value());
    if (!RunUntil([&] { return done.has_value(); })) return absl::UnknownError("never called");
    return *done;
  }
  Nfsstat3 GetattrStatus(const NfsFh3& handle) {
    Nfsstat3 found = Nfsstat3::kServerfault;
    const absl::Status status =
        Run<GetattrRes>(Procedure::kGetattr, GetattrArgs{handle},
                        [&](const GetattrRes& results) { found = results.status; });
    EXPECT_TRUE(status.ok()) << status;
    return found;
  }

  sim::Simulation world_{1, {}};
  sim::Node* nodes_[2] = {};
  std::unique_ptr<cm::Manager> managers_[2];
  MemoryServer files_;
  std::unique_ptr<rpcrdma::Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, WritesAndReadsByRdma) {
  Start();
  const uint64_t id = files_.Make(Ftype3::kReg, 0644);
  for (const size_t bytes : {1u, 3000u, 100'001u, kMaxFileData}) {
    std::vector<uint8_t> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 7);
    const WriteArgs write{
        .file = MemoryServer::Handle(id), .count = static_cast<uint32_t>(bytes), .data = {data}};
    ASSERT_TRUE(Run<WriteRes>(Procedure::kWrite, write, [&](const WriteRes& results) {
                  EXPECT_EQ(results.status, Nfsstat3::kOk);
                  EXPECT_EQ(results.resok.count, bytes);
                }).ok());
    std::vector<uint8_t> room(bytes);
    const ReadArgs read{.file = MemoryServer::Handle(id), .count = static_cast<uint32_t>(bytes)};
    ASSERT_TRUE(Run<ReadRes>(Procedure::kRead, read,
                             [&](const ReadRes& results) {
                               EXPECT_TRUE(results.resok.eof);
                               EXPECT_EQ(results.resok.data.bytes, absl::MakeConstSpan(data));
                             },
                             {.item = absl::MakeSpan(room)})
                    .ok());
  }
  EXPECT_GE(server_->counters().bytes_read, kMaxFileData);
  EXPECT_GE(server_->counters().bytes_written, kMaxFileData);
}

TEST_F(ClientTest, AListAboveTheThresholdArrivesInTheReplyChunk) {
  Start();
  for (int i = 0; i < 500; ++i) files_.Add(1, "file" + std::to_string(i), Ftype3::kReg);
  files_.entries_a_page = 1000;
  const ReaddirplusArgs args{
      .dir = MemoryServer::Handle(1), .dircount = 60'000, .maxcount = 60'000};
  size_t entries = 0;
  ASSERT_TRUE(Run<ReaddirplusRes>(Procedure::kReaddirplus, args,
                                  [&](const ReaddirplusRes& results) {
                                    entries = results.resok.entries.items.size();
                                  },
                                  {.max_result_bytes = 4 + 60'000})
                  .ok());
  EXPECT_GT(entries, 200u);
}

TEST_F(ClientTest, ErrorStatusesAreReturnedToTheCaller) {
  Start();
  EXPECT_EQ(GetattrStatus(MemoryServer::Handle(99)), Nfsstat3::kStale);
  EXPECT_EQ(GetattrStatus(MemoryServer::Handle(1)), Nfsstat3::kOk);
}

TEST_F(ClientTest, ACallAnsweredByJukeboxIsRetried) {
  Start();
  files_.jukeboxes = 3;
  const uint64_t before_ns = world_.now_ns();
  EXPECT_EQ(GetattrStatus(MemoryServer::Handle(1)), Nfsstat3::kOk);
  EXPECT_EQ(files_.calls[Procedure::kGetattr], 4u);
  // 100 ms, 200 ms, 400 ms.
  EXPECT_GE(world_.now_ns() - before_ns, 700 * kSecond / 1000);
  EXPECT_LE(world_.now_ns() - before_ns, kSecond);
}

TEST_F(ClientTest, AJukeboxStatusIsReturnedAfterTheLastTry) {
  Start({.jukebox_tries = 4});
  files_.jukeboxes = 1000;
  EXPECT_EQ(GetattrStatus(MemoryServer::Handle(1)), Nfsstat3::kJukebox);
  EXPECT_EQ(files_.calls[Procedure::kGetattr], 4u);
}

TEST_F(ClientTest, ArgumentsAboveTheirLimitAreNotSent) {
  Start();
  const std::string name(kMaxFilename3 + 1, 'n');
  const absl::Status status = Run<LookupRes>(
      Procedure::kLookup, LookupArgs{MemoryServer::Handle(1), {name}}, [](const LookupRes&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(files_.calls.empty());
}

TEST_F(ClientTest, CallsAreResentToARestartedServer) {
  Start();
  EXPECT_EQ(GetattrStatus(MemoryServer::Handle(1)), Nfsstat3::kOk);
  server_.reset();
  world_.RunFor(kSecond);
  std::optional<absl::Status> done;
  client_->Call<GetattrRes>(Procedure::kGetattr, GetattrArgs{MemoryServer::Handle(1)},
                            [&](absl::Status status, const GetattrRes*) { done = status; });
  world_.RunFor(3 * kSecond);
  EXPECT_FALSE(done.has_value());
  StartServer();
  ASSERT_TRUE(RunUntil([&] { return done.has_value(); }));
  EXPECT_TRUE(done->ok()) << *done;
  EXPECT_EQ(client_->rpc().counters().reconnects, 1u);
}

TEST_F(ClientTest, WaitingCallsFailWhenTheClientDisconnects) {
  Start();
  files_.jukeboxes = 1000;
  std::optional<absl::Status> done;
  client_->Call<GetattrRes>(Procedure::kGetattr, GetattrArgs{MemoryServer::Handle(1)},
                            [&](absl::Status status, const GetattrRes*) { done = status; });
  ASSERT_TRUE(RunUntil([&] { return files_.calls[Procedure::kGetattr] == 2; }));
  bool gone = false;
  client_->Disconnect([&] { gone = true; });
  ASSERT_TRUE(RunUntil([&] { return gone; }));
  client_.reset();
  ASSERT_TRUE(done.has_value());
  EXPECT_FALSE(done->ok());
}

// One on its way and one that waits to be sent again: each tries once more when it fails.
TEST_F(ClientTest, CallsFromCallbacksOfADisconnectingClientFail) {
  Start();
  files_.jukeboxes = 1;
  int failed = 0;
  const auto call = [&] {
    client_->Call<GetattrRes>(Procedure::kGetattr, GetattrArgs{MemoryServer::Handle(1)},
                              [&, client = client_.get()](absl::Status status, const GetattrRes*) {
                                EXPECT_FALSE(status.ok());
                                ++failed;
                                client->Call<GetattrRes>(
                                    Procedure::kGetattr, GetattrArgs{MemoryServer::Handle(1)},
                                    [](absl::Status, const GetattrRes*) { ADD_FAILURE(); });
                              });
  };
  call();
  ASSERT_TRUE(RunUntil([&] { return files_.calls[Procedure::kGetattr] == 1; }));
  world_.RunFor(kSecond / 100);
  call();
  client_.reset();
  EXPECT_EQ(failed, 2);
}

TEST_F(ClientTest, ACredentialAboveItsLimitIsRefused) {
  Start();
  oncrpc::AuthSys credential;
  credential.gids.items.assign(oncrpc::kMaxAuthSysGids + 1, 0);
  EXPECT_EQ(Client::Create(&nodes_[0]->worker(), managers_[0].get(), credential).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pollux::nfs
