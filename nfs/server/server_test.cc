#include "nfs/server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/server/server_for_test.h"
#include "nfs/server/stalled_file_for_test.h"
#include "nfs/v3/listing.h"
#include "rpcrdma/client.h"

namespace pollux::nfs {
namespace {

using ::testing::HasSubstr;

TEST_F(ServerTest, FilesAreWrittenAndReadBack) {
  StartServer();
  Client* const client = Connect();
  const NfsFh3 file = CreateFile(client, HandleOf(0), "file");
  const struct stat made = [&] {
    struct stat attributes = {};
    stat(Path("a/file").c_str(), &attributes);
    return attributes;
  }();
  EXPECT_EQ(made.st_uid, kUser);
  EXPECT_EQ(made.st_mode & 07777, 0640u);
  std::vector<uint8_t> data(kMaxFileData), room(kMaxFileData);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + (i >> 9));
  uint64_t offset = 0, verf = 0;
  for (const uint32_t size : {1u, 3000u, 70'001u, kMaxFileData}) {
    const WriteArgs write{.file = file,
                          .offset = offset,
                          .count = size,
                          .stable = size == 1 ? StableHow::kFileSync : StableHow::kUnstable,
                          .data = {absl::MakeConstSpan(data).first(size)}};
    EXPECT_EQ(Run<WriteRes>(client, Procedure::kWrite, write,
                            [&](const WriteRes& results) {
                              EXPECT_EQ(results.resok.count, size);
                              EXPECT_EQ(results.resok.committed, write.stable);
                              verf = results.resok.verf;
                            }),
              Nfsstat3::kOk);
    const ReadArgs read{.file = file, .offset = offset, .count = size};
    EXPECT_EQ(Run<ReadRes>(client, Procedure::kRead, read,
                           [&](const ReadRes& results) {
                             EXPECT_EQ(results.resok.data.bytes, write.data.bytes);
                             EXPECT_TRUE(results.resok.eof);
                           },
                           {.item = absl::MakeSpan(room).first(size)}),
              Nfsstat3::kOk);
    offset += size;
  }
  EXPECT_EQ(Run<CommitRes>(client, Procedure::kCommit, CommitArgs{.file = file},
                           [&](const CommitRes& results) { EXPECT_EQ(results.resok.verf, verf); }),
            Nfsstat3::kOk);
  EXPECT_EQ(server_->counters().bytes_read, offset);
  EXPECT_EQ(server_->counters().bytes_written, offset);
  EXPECT_EQ(server_->counters().procedures[static_cast<int>(Procedure::kWrite)].calls, 4u);
  EXPECT_EQ(static_cast<uint64_t>(std::filesystem::file_size(Path("a/file"))), offset);
}

TEST_F(ServerTest, ListsADirectoryInSeveralReplies) {
  for (int i = 0; i < 3000; ++i) std::ofstream(Path(absl::StrCat("a/file", i)));
  StartServer();
  Client* const client = Connect();
  size_t entries = 0;
  ReaddirplusArgs args{.dir = HandleOf(0), .dircount = 1 << 20, .maxcount = 1 << 16};
  for (bool eof = false; !eof && !HasFailure();) {
    EXPECT_EQ(Run<ReaddirplusRes>(client, Procedure::kReaddirplus, args,
                                  [&](const ReaddirplusRes& results) {
                                    const auto& items = results.resok.entries.items;
                                    entries += items.size();
                                    if (!items.empty()) args.cookie = items.back().cookie;
                                    args.cookieverf = results.resok.cookieverf;
                                    eof = results.resok.eof;
                                  },
                                  {.max_result_bytes = 4 + args.maxcount}),
              Nfsstat3::kOk);
  }
  EXPECT_EQ(entries, 3002u);
}

TEST_F(ServerTest, AfterARestartHandlesAreValidAndTheVerifierIsNew) {
  StartServer();
  Client* client = Connect();
  const NfsFh3 file = CreateFile(client, HandleOf(0), "file");
  const uint64_t verifier = *served_->verifier();
  clients_.back()->Disconnect([] {});
  StopServer();
  clients_.clear();
  StartServer();
  client = Connect();
  EXPECT_EQ(Getattr(client, file), Nfsstat3::kOk);
  EXPECT_NE(*served_->verifier(), verifier);
  NfsFh3 forged = file;
  forged.bytes[20] ^= 1;
  EXPECT_EQ(Getattr(client, forged), Nfsstat3::kBadhandle);
  EXPECT_EQ(Getattr(client, NfsFh3{}), Nfsstat3::kBadhandle);
}

TEST_F(ServerTest, AStalledFileDelaysOnlyItsOwnCalls) {
  std::ofstream(Path("a/stalled")) << "text";
  std::ofstream(Path("a/other")) << "text";
  StartServer();
  Client* const client = Connect();
  const NfsFh3 stalled = HandleOf(0, "stalled"), other = HandleOf(0, "other");
  int done = 0;
  {
    const StalledFile stall(Path("a/stalled"));
    BeginReads(client, stalled, Storage::kThreads - 1, &done);
    int others = 0;
    BeginReads(client, other, 10, &others);
    EXPECT_TRUE(RunUntil([&] { return others == 10; }));
    // The stalled file too, as far as nobody opens it.
    EXPECT_EQ(Getattr(client, stalled), Nfsstat3::kOk);
    EXPECT_EQ(done, 0);
  }
  EXPECT_TRUE(RunUntil([&] { return done == Storage::kThreads - 1; }));
}

// Clients ask again until the lease ends.
TEST_F(ServerTest, ALeasedFileOccupiesNoThread) {
  std::ofstream(Path("a/leased")) << "text";
  std::ofstream(Path("a/other")) << "text";
  StartServer();
  Client* const client = Connect();
  const NfsFh3 leased = HandleOf(0, "leased"), other = HandleOf(0, "other");
  int done = 0;
  {
    const LeasedFile lease(Path("a/leased"));
    BeginReads(client, leased, 2 * Storage::kThreads, &done);
    int others = 0;
    BeginReads(client, other, 10, &others);
    EXPECT_TRUE(RunUntil([&] { return others == 10; }));
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == 0; }));
    EXPECT_EQ(done, 0);
  }
  EXPECT_TRUE(RunUntil([&] { return done == 2 * Storage::kThreads; }));
}

TEST_F(ServerTest, AStalledExportDoesNotDelayOthers) {
  std::ofstream(Path("a/stalled")) << "text";
  std::ofstream(Path("b/other")) << "text";
  StartServer();
  const NfsFh3 stalled = HandleOf(0, "stalled"), other = HandleOf(1, "other");
  // More than the export takes at once: some wait before it.
  constexpr int kClients = 3, kEach = 30;
  static_assert(kClients * kEach > Storage::kMaxJobs);
  int done = 0;
  {
    const StalledFile stall(Path("a/stalled"));
    for (int i = 0; i < kClients; ++i) BeginReads(Connect(), stalled, kEach, &done);
    Client* const free = Connect();
    EXPECT_TRUE(RunUntil([&] { return server_->counters().waited > 0; }));
    int others = 0;
    BeginReads(free, other, 30, &others);
    EXPECT_TRUE(RunUntil([&] { return others == 30; }));
    EXPECT_EQ(done, 0);
  }
  EXPECT_TRUE(RunUntil([&] { return done == kClients * kEach; }));
}

// The same with calls whose data comes by RDMA READ.
TEST_F(ServerTest, WritesToAStalledExportDoNotDelayOthers) {
  std::ofstream(Path("a/stalled")) << "text";
  std::ofstream(Path("b/other")) << "text";
  for (const char* name : {"a/stalled", "b/other"}) ASSERT_EQ(chmod(Path(name).c_str(), 0666), 0);
  StartServer();
  const NfsFh3 stalled = HandleOf(0, "stalled"), other = HandleOf(1, "other");
  const std::vector<uint8_t> data(8192, 'x');
  const auto begin_writes = [&](Client* client, const NfsFh3& file, int count, int* done) {
    for (int i = 0; i < count; ++i) {
      client->Call<WriteRes>(
          Procedure::kWrite,
          WriteArgs{.file = file, .count = 8192, .stable = StableHow::kUnstable, .data = {data}},
          [done](absl::Status status, const WriteRes* results) {
            EXPECT_TRUE(status.ok() && results->status == Nfsstat3::kOk) << status;
            ++*done;
          });
    }
  };
  constexpr int kClients = 5, kEach = 30;
  int done = 0, others = 0;
  {
    const StalledFile stall(Path("a/stalled"));
    for (int i = 0; i < kClients; ++i) begin_writes(Connect(), stalled, kEach, &done);
    Client* const free = Connect();
    EXPECT_TRUE(RunUntil([&] { return server_->counters().waited > 30; }));
    begin_writes(free, other, 1, &others);
    EXPECT_TRUE(RunUntil([&] { return others == 1; }));
    EXPECT_EQ(done, 0);
    // They come again, and find that nothing has changed.
    EXPECT_TRUE(RunUntil([&] { return server_->counters().put_off > kClients * kEach; }));
    begin_writes(free, other, 1, &others);
    EXPECT_TRUE(RunUntil([&] { return others == 2; }));
    EXPECT_EQ(done, 0);
  }
  EXPECT_TRUE(RunUntil([&] { return done == kClients * kEach; }));
}

// A client that has no answer for long connects again and sends its WRITE again: if the first one
// comes to its end after the second, it writes old bytes over newer ones.
TEST_F(ServerTest, AWriteRepeatedWhileItRunsIsExecutedOnce) {
  std::ofstream(Path("a/stalled")) << "text";
  ASSERT_EQ(chmod(Path("a/stalled").c_str(), 0666), 0);
  StartServer();
  const NfsFh3 stalled = HandleOf(0, "stalled");
  auto made = Client::Create(
      &client_device_->worker(), client_manager_.get(), {.machinename = {"here"}, .uid = kUser},
      {.reconnect = {.attempts = 1000, .first_delay_ms = 1, .max_delay_ms = 1, .silence_ms = 200}});
  ASSERT_TRUE(made.ok()) << made.status();
  std::optional<absl::Status> connected;
  ASSERT_TRUE((*made)
                  ->Connect({.address = Gid::FromIpv4(kServerAddress), .port = kNfsRdmaPort},
                            [&](absl::Status status) { connected = status; })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return connected.has_value(); }));
  clients_.push_back(*std::move(made));
  const std::vector<uint8_t> data(8192, 'x');
  constexpr uint64_t kTimesAgain = 10;
  bool done = false;
  size_t most = 0;
  {
    const StalledFile stall(Path("a/stalled"));
    clients_.back()->Call<WriteRes>(
        Procedure::kWrite,
        WriteArgs{.file = stalled, .count = 8192, .stable = StableHow::kUnstable, .data = {data}},
        [&](absl::Status status, const WriteRes*) {
          EXPECT_TRUE(status.ok()) << status;
          done = true;
        });
    EXPECT_TRUE(RunUntil([&] {
      most = std::max(most, server_->busy());
      return DuplicatesJoined() >= kTimesAgain;
    }));
  }
  EXPECT_TRUE(RunUntil([&] { return done && server_->busy() == 0; }));
  EXPECT_EQ(most, 1u);
  EXPECT_EQ(Counters(server_->counters()).Of(Procedure::kWrite).calls, 1u);
}

TEST_F(ServerTest, AClientThatConnectsAgainAndAgainDoesNotFillTheLog) {
  constexpr uint64_t kMinuteNs = 60'000'000'000;
  StartServer();
  const auto connect_and_leave = [this] {
    bool gone = false;
    Connect()->Disconnect([&] { gone = true; });
    EXPECT_TRUE(RunUntil([&] { return gone && server_->connections() == 0; }));
    clients_.clear();
  };
  for (uint32_t i = 0; i < Server::kConnectionLinesOfAddress; ++i) connect_and_leave();
  EXPECT_EQ(lines_.size(), Server::kConnectionLinesOfAddress);
  now_ns_ += kMinuteNs;
  connect_and_leave();
  ASSERT_EQ(lines_.size(), Server::kConnectionLinesOfAddress + 2);
  EXPECT_THAT(lines_.end()[-2], HasSubstr(" (32 lines about connections were left out"));
}

// The calls of a client that has gone end by themselves.
TEST_F(ServerTest, CallsOnAStalledFileEndAfterTheClientDisconnects) {
  std::ofstream(Path("a/stalled")) << "text";
  StartServer();
  Client* const client = Connect();
  const NfsFh3 stalled = HandleOf(0, "stalled");
  bool gone = false;
  {
    const StalledFile stall(Path("a/stalled"));
    for (int i = 0; i < 10; ++i) {
      client->Call<ReadRes>(Procedure::kRead, ReadArgs{.file = stalled, .count = 4},
                            {.item = absl::MakeSpan(sink_)},
                            [](absl::Status status, const ReadRes*) {
                              EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
                            });
    }
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == 10; }));
    client->Disconnect([&] { gone = true; });
    EXPECT_TRUE(RunUntil([&] { return gone; }));
    EXPECT_EQ(server_->busy(), 10u);
  }
  EXPECT_TRUE(RunUntil([&] { return server_->busy() == 0; }));
  clients_.clear();
  EXPECT_EQ(Getattr(Connect(), stalled), Nfsstat3::kOk);
}

// More of it is read than any part has: it goes out while the rest is read.
TEST_F(ServerTest, LargeReadsReturnTheFile) {
  constexpr size_t kBytes = (5 * kMaxFileData) / 2 + 1;
  std::string text(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>(i * 11 + (i >> 10));
  std::ofstream(Path("a/file"), std::ios::binary) << text;
  StartServer();
  Client* const client = Connect();
  const NfsFh3 file = HandleOf(0, "file");
  struct Read {
    uint64_t offset;
    uint32_t count;
    std::vector<uint8_t> room;
  };
  std::vector<Read> reads;
  // More than are run at once; some end with the file, some begin behind it.
  for (uint32_t i = 0; i < Storage::kMaxJobs + 16; ++i) {
    reads.push_back({i * 41'003, i % 3 == 0 ? kMaxFileData : 100'000 + i * 5001, {}});
  }
  size_t done = 0;
  for (Read& read : reads) {
    read.room.resize(read.count);
    client->Call<ReadRes>(
        Procedure::kRead, ReadArgs{.file = file, .offset = read.offset, .count = read.count},
        {.item = absl::MakeSpan(read.room)}, [&](absl::Status status, const ReadRes* results) {
          ++done;
          ASSERT_TRUE(status.ok()) << status;
          ASSERT_EQ(results->status, Nfsstat3::kOk);
          const size_t expected =
              read.offset < kBytes ? std::min<size_t>(read.count, kBytes - read.offset) : 0;
          ASSERT_EQ(results->resok.count, expected);
          EXPECT_EQ(results->resok.eof, read.offset + expected >= kBytes);
          const auto bytes = results->resok.data.bytes;
          EXPECT_TRUE(
              std::equal(bytes.begin(), bytes.end(),
                         reinterpret_cast<const uint8_t*>(text.data()) + read.offset,
                         reinterpret_cast<const uint8_t*>(text.data()) + read.offset + expected));
        });
  }
  EXPECT_TRUE(RunUntil([&] { return done == reads.size(); }));
  EXPECT_GT(server_->counters().bytes_ahead, 0u);
}

// What its reads hold is given back, however far they have come.
TEST_F(ServerTest, LargeReadsAreReleasedWhenTheClientDisconnects) {
  std::ofstream(Path("a/file")) << std::string(kMaxFileData, 'x');
  StartServer();
  const NfsFh3 file = HandleOf(0, "file");
  constexpr int kEach = 10;
  std::vector<uint8_t> room(kMaxFileData);
  const auto read = [&](Client* client, int* done) {
    client->Call<ReadRes>(Procedure::kRead, ReadArgs{.file = file, .count = kMaxFileData},
                          {.item = absl::MakeSpan(room)},
                          [done](absl::Status, const ReadRes*) { ++*done; });
  };
  // More than can run, were each to keep its place.
  for (uint32_t turn = 0; turn * kEach < Storage::kMaxJobs + kEach; ++turn) {
    Client* const client = Connect();
    int done = 0;
    for (int i = 0; i < kEach; ++i) read(client, &done);
    EXPECT_TRUE(RunUntil([&] { return done > static_cast<int>(turn % kEach); }));
    bool gone = false;
    client->Disconnect([&] { gone = true; });
    EXPECT_TRUE(RunUntil([&] { return gone && done == kEach && server_->busy() == 0; }));
    clients_.clear();
  }
  Client* const client = Connect();
  int done = 0;
  for (int i = 0; i < kEach; ++i) read(client, &done);
  EXPECT_TRUE(RunUntil([&] { return done == kEach; }));
  EXPECT_EQ(server_->counters().waited, 0u);
}

size_t ResidentPages() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

// A day in which clients come, do some of everything, and go, while one stays: what that takes
// comes back.
TEST_F(ServerTest, MemoryUseStaysConstantOverADay) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "this allocator holds back what is freed";
#endif
  constexpr int kRounds = 240, kFirst = 60;
  constexpr uint64_t kRoundNs = uint64_t{24} * 3600 * 1'000'000'000 / kRounds;
  // Of 4 KiB: less than a connection's buffers a dozen times.
  constexpr size_t kSlackPages = 1024;
  constexpr uint32_t kBytes = 64 << 10;
  std::vector<uint8_t> data(kBytes, 7), room(kBytes);
  StartServer();
  const NfsFh3 root = HandleOf(0);
  Client* const resident = Connect();
  const ReaddirplusArgs list{.dir = root, .dircount = 1 << 12, .maxcount = 1 << 16};
  size_t before = 0;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    if (round == kFirst) before = ResidentPages();
    Client* const client = Connect();
    const NfsFh3 file = CreateFile(client, root, "file");
    const WriteArgs write{.file = file,
                          .count = kBytes,
                          .stable = StableHow::kUnstable,
                          .data = {absl::MakeConstSpan(data)}};
    EXPECT_EQ(Run<WriteRes>(client, Procedure::kWrite, write), Nfsstat3::kOk);
    const ReadArgs read{.file = file, .count = kBytes};
    EXPECT_EQ(Run<ReadRes>(client, Procedure::kRead, read, [](const ReadRes&) {},
                           {.item = absl::MakeSpan(room)}),
              Nfsstat3::kOk);
    EXPECT_EQ(Getattr(client, NfsFh3{}), Nfsstat3::kBadhandle);
    EXPECT_EQ(Getattr(resident, file), Nfsstat3::kOk);
    EXPECT_EQ(
        Run<ReaddirplusRes>(resident, Procedure::kReaddirplus, list, [](const ReaddirplusRes&) {},
                            {.max_result_bytes = 4 + list.maxcount}),
        Nfsstat3::kOk);
    EXPECT_EQ(Run<RemoveRes>(client, Procedure::kRemove, RemoveArgs{.dir = root, .name = {"file"}}),
              Nfsstat3::kOk);
    bool gone = false;
    client->Disconnect([&] { gone = true; });
    EXPECT_TRUE(RunUntil([&] { return gone && server_->connections() == 1; }));
    clients_.pop_back();
    lines_.clear();
    // What is begun next counts from then.
    now_ns_ += kRoundNs;
    bool polled = false;
    RunUntil([&] { return std::exchange(polled, true); });
  }
  EXPECT_LT(ResidentPages(), before + kSlackPages);
}

TEST_F(ServerTest, ClientsOutsideTheExportAreDenied) {
  exports_[0].clients[0].network = {.address = Gid::FromIpv4(kClientAddress + 1),
                                    .prefix_length = 32};
  StartServer();
  Client* const client = Connect();
  EXPECT_EQ(Getattr(client, HandleOf(0)), Nfsstat3::kAcces);
  EXPECT_EQ(Getattr(client, HandleOf(1)), Nfsstat3::kOk);
  EXPECT_EQ(server_->counters().procedures[static_cast<int>(Procedure::kGetattr)].failures, 1u);
}

TEST_F(ServerTest, RootIsSquashedWithoutNoRootSquash) {
  exports_[1].clients[0].rights.root_squash = false;
  StartServer();
  Client* const root = Connect({.machinename = {"here"}, .uid = 0, .gid = 0});
  CreateFile(root, HandleOf(0), "squashed");
  CreateFile(root, HandleOf(1), "roots");
  struct stat attributes = {};
  EXPECT_EQ(stat(Path("a/squashed").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_uid, kAnonymousId);
  EXPECT_EQ(attributes.st_gid, kAnonymousId);
  EXPECT_EQ(stat(Path("b/roots").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_uid, 0u);
}

TEST_F(ServerTest, InvalidCredentialsAreDenied) {
  StartServer();
  const NfsFh3 root = HandleOf(0);
  std::vector<uint8_t> space(100);
  const oncrpc::Encoded encoded = oncrpc::Encode(GetattrArgs{root}, absl::MakeSpan(space));
  for (const auto flavor : {oncrpc::AuthFlavor::kSys, oncrpc::AuthFlavor::kGss}) {
    rpcrdma::ClientConfig config;
    config.credential.flavor = flavor;
    auto client = *rpcrdma::Client::Create(&client_device_->worker(), client_manager_.get(),
                                           Nfs3Binding(), config);
    std::optional<absl::Status> connected, ended, answered;
    ASSERT_TRUE(client
                    ->Connect(
                        {.address = Gid::FromIpv4(kServerAddress), .port = kNfsRdmaPort},
                        [&](absl::Status status) { connected = status; },
                        [&](absl::Status status) { ended = status; })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return connected.has_value(); }));
    ASSERT_TRUE(client
                    ->Call({.procedure = static_cast<uint32_t>(Procedure::kGetattr),
                            .arguments = encoded.stream},
                           [&](absl::Status status, const oncrpc::Reply*) { answered = status; })
                    .ok());
    EXPECT_TRUE(RunUntil([&] { return answered.has_value(); }));
    EXPECT_EQ(answered->code(), absl::StatusCode::kPermissionDenied) << *answered;
    client->Disconnect();
    EXPECT_TRUE(RunUntil([&] { return ended.has_value(); }));
  }
  EXPECT_EQ(server_->counters().procedures[static_cast<int>(Procedure::kGetattr)].failures, 2u);
}

// Linux's client calls NULL of it at every mount, and goes without ACLs when there is no program.
TEST_F(ServerTest, AclCallsAreUnavailableAndLogged) {
  StartServer();
  oncrpc::ProgramBinding binding{.program = kNfsAclProgram,
                                 .version = kNfsAclV3,
                                 .procedures = {},
                                 .others = oncrpc::ProcedureBinding{.idempotent = true}};
  auto client = *rpcrdma::Client::Create(&client_device_->worker(), client_manager_.get(),
                                         std::move(binding), {});
  std::optional<absl::Status> connected, ended, answered;
  ASSERT_TRUE(client
                  ->Connect(
                      {.address = Gid::FromIpv4(kServerAddress), .port = kNfsRdmaPort},
                      [&](absl::Status status) { connected = status; },
                      [&](absl::Status status) { ended = status; })
                  .ok());
  ASSERT_TRUE(RunUntil([&] { return connected.has_value(); }));
  ASSERT_TRUE(client
                  ->Call({.procedure = 0},
                         [&](absl::Status status, const oncrpc::Reply*) { answered = status; })
                  .ok());
  EXPECT_TRUE(RunUntil([&] { return answered.has_value(); }));
  EXPECT_THAT(std::string(answered->message()), HasSubstr("no program 100227"));
  EXPECT_EQ(server_->counters().acl_calls, 1u);
  EXPECT_EQ(server_->counters().calls(), 0u);
  ASSERT_EQ(lines_.size(), 2u);  // the first: connected
  EXPECT_THAT(lines_[1], HasSubstr("requests POSIX ACLs (NFS_ACL, program 100227)"));
  client->Disconnect();
  EXPECT_TRUE(RunUntil([&] { return ended.has_value(); }));
}

// A client that repeats it after a restart would see that it has run already.
TEST_F(ServerTest, ACallInProgressIsAnsweredBeforeTheServerEnds) {
  std::ofstream(Path("a/stalled")) << "text";
  StartServer();
  Client* const client = Connect();
  SetattrArgs args{.object = HandleOf(0, "stalled"), .new_attributes = {.size = 2}};
  EXPECT_EQ(Run<GetattrRes>(client, Procedure::kGetattr, GetattrArgs{args.object},
                            [&](const GetattrRes& results) { args.guard = results.resok.ctime; }),
            Nfsstat3::kOk);
  std::optional<Nfsstat3> status, late;
  {
    const StalledFile stall(Path("a/stalled"));
    client->Call<SetattrRes>(Procedure::kSetattr, args, {},
                             [&](const absl::Status&, const SetattrRes* results) {
                               if (results != nullptr) status = results->status;
                             });
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == 1; }));
    server_->StopTakingCalls();
    client->Call<GetattrRes>(Procedure::kGetattr, GetattrArgs{HandleOf(0)}, {},
                             [&](const absl::Status&, const GetattrRes* results) {
                               if (results != nullptr) late = results->status;
                             });
  }
  EXPECT_TRUE(RunUntil([&] { return server_->running() == 0; }));
  StopServer();
  EXPECT_EQ(status, Nfsstat3::kOk);
  EXPECT_FALSE(late.has_value());
  StartServer();
  EXPECT_TRUE(RunUntil([&] { return late.has_value(); }));
  EXPECT_EQ(late, Nfsstat3::kOk);
}

TEST_F(ServerTest, ACallThatWaitsWhenTheServerEndsIsLeftToTheNextOne) {
  std::ofstream(Path("a/stalled")) << "text";
  StartServer();
  std::vector<Client*> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  int done = 0;
  std::optional<Nfsstat3> made;
  {
    const StalledFile stall(Path("a/stalled"));
    for (int i = 0; i < 2; ++i) BeginReads(clients[i], HandleOf(0, "stalled"), 32, &done);
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == Storage::kMaxJobs; }));
    clients[2]->Call<CreateRes>(Procedure::kMkdir, MkdirArgs{{HandleOf(0), {"late"}}, {}}, {},
                                [&](absl::Status status, const CreateRes* results) {
                                  EXPECT_TRUE(status.ok()) << status;
                                  made = results->status;
                                });
    EXPECT_TRUE(RunUntil([&] { return server_->counters().waited == 1; }));
    server_->Shutdown();
  }
  EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0 && server_->busy() == 0; }));
  EXPECT_FALSE(std::filesystem::exists(Path("a/late")));
  StopServer();
  StartServer();
  EXPECT_TRUE(RunUntil([&] { return made.has_value() && done == 64; }));
  EXPECT_EQ(made, Nfsstat3::kOk);
}

}  // namespace
}  // namespace pollux::nfs
