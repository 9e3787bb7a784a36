#include "nfs/server/served_export.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs/lock/lock_tables.h"
#include "nfs/server/server_for_test.h"
#include "nfs/server/stalled_file_for_test.h"

namespace pollux::nfs {
namespace {

using ::testing::HasSubstr;

TEST_F(ServerTest, ReplacedExportsHoldForTheNextCall) {
  StartServer();
  Client* const client = Connect();
  const NfsFh3 a = HandleOf(0), b = HandleOf(1);
  ASSERT_EQ(mkdir(Path("c").c_str(), 0777), 0);
  exports_[0].clients[0].rights.read_only = true;
  exports_[1].directory = Path("c");
  ReplaceExports();
  const MkdirArgs made{.where = {.dir = a, .name = {"d"}}};
  EXPECT_EQ(Run<CreateRes>(client, Procedure::kMkdir, made), Nfsstat3::kRofs);
  EXPECT_EQ(Getattr(client, a), Nfsstat3::kOk);
  EXPECT_EQ(Getattr(client, b), Nfsstat3::kStale);
  EXPECT_EQ(Getattr(client, HandleOf(1)), Nfsstat3::kOk);
  // The handles of an export that comes back are those that clients have.
  exports_[1].directory = Path("b");
  ReplaceExports();
  EXPECT_EQ(Getattr(client, b), Nfsstat3::kOk);
  exports_.clear();
  ReplaceExports();
  EXPECT_EQ(Getattr(client, a), Nfsstat3::kStale);
  EXPECT_EQ(Getattr(client, NfsFh3{}), Nfsstat3::kBadhandle);
  EXPECT_EQ(server_->connections(), 1u);
  // Nothing uses the trees that were replaced.
  EXPECT_EQ(served_->TakeUnused().size(), 6u);
}

TEST_F(ServerTest, CallsInProgressOutliveTheirExport) {
  std::ofstream(Path("a/stalled")) << "text";
  StartServer();
  const NfsFh3 stalled = HandleOf(0, "stalled");
  std::vector<Client*> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  int done = 0;
  std::vector<Nfsstat3> late;
  {
    const StalledFile stall(Path("a/stalled"));
    for (int i = 0; i < 2; ++i) BeginReads(clients[i], stalled, 32, &done);
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == Storage::kMaxJobs; }));
    // Waits for a place when the export is removed.
    clients[2]->Call<GetattrRes>(Procedure::kGetattr, GetattrArgs{stalled}, {},
                                 [&](absl::Status status, const GetattrRes* results) {
                                   EXPECT_TRUE(status.ok()) << status;
                                   late.push_back(results->status);
                                 });
    EXPECT_TRUE(RunUntil([&] { return server_->counters().waited == 1; }));
    exports_.erase(exports_.begin());
    ReplaceExports();
    EXPECT_TRUE(RunUntil([&] { return !late.empty(); }));
    EXPECT_EQ(late, std::vector<Nfsstat3>{Nfsstat3::kStale});
    EXPECT_EQ(done, 0);
    const auto unused = served_->TakeUnused();
    ASSERT_EQ(unused.size(), 1u);
    EXPECT_EQ(unused[0].tree->exported().directory, Path("b"));
  }
  // Replies may use the memory of their calls for a while.
  std::vector<ExportEntry> unused;
  EXPECT_TRUE(RunUntil([&] {
    if (unused.empty()) unused = served_->TakeUnused();
    return !unused.empty();
  }));
  EXPECT_EQ(done, 64);
  ASSERT_EQ(unused.size(), 1u);
  EXPECT_EQ(unused[0].tree->exported().directory, Path("a"));
}

// The place of a removed export is still in use when the export returns, so it gets another one.
TEST_F(ServerTest, LocksOfARemovedExportAreFreedAlthoughItReturned) {
  std::ofstream(Path("a/stalled")) << "text";
  std::ofstream(Path("a/locked")) << "text";
  StartServer();
  Client* const client = Connect();
  const NfsFh3 stalled = HandleOf(0, "stalled"), locked = HandleOf(0, "locked");
  LockTables tables(*served_);
  ServedExport* const place = served_->table()->at(0).served;
  const LockRequest request = {
      .file = {locked.bytes.begin(), locked.bytes.begin() + locked.size},
      .owner = {.client = {.address = Gid::FromIpv4(kClientAddress), .name = "client"}},
      .exclusive = true};
  EXPECT_EQ(tables.Of(*place).Lock(request, /*wait=*/false,
                                   Fd(open(Path("a/locked").c_str(), O_RDWR | O_CLOEXEC))),
            LockTable::Outcome::kGranted);
  // The export is still in the table.
  ReplaceExports();
  tables.CloseRemoved(served_.get());
  EXPECT_EQ(tables.Held().size(), 1u);
  int done = 0;
  {
    const StalledFile stall(Path("a/stalled"));
    BeginReads(client, stalled, 1, &done);
    EXPECT_TRUE(RunUntil([&] { return server_->busy() == 1; }));
    const std::vector<Export> all = exports_;
    exports_.erase(exports_.begin());
    ReplaceExports();
    exports_ = all;
    ReplaceExports();
    EXPECT_NE(served_->table()->at(0).served, place);
    tables.CloseRemoved(served_.get());
    EXPECT_EQ(tables.Held().size(), 1u);
  }
  EXPECT_TRUE(RunUntil([&] {
    tables.CloseRemoved(served_.get());
    return tables.Held().empty();
  }));
  EXPECT_TRUE(RunUntil([&] { return done == 1; }));
}

TEST_F(ServerTest, AFailedPreparationChangesNothing) {
  StartServer();
  Client* const client = Connect();
  const NfsFh3 a = HandleOf(0);
  exports_.push_back({.directory = Path("none"), .clients = {{}}});
  EXPECT_THAT(std::string(served_->Prepare(exports_).status().message()), HasSubstr("none"));
  EXPECT_EQ(Getattr(client, a), Nfsstat3::kOk);
  EXPECT_EQ(served_->table()->size(), 2u);
}

TEST_F(ServerTest, APreparationOfOpenedTreesOpensNoDirectory) {
  StartServer();
  const auto trees = ServedExports::OpenTrees(exports_, served_->key());
  ASSERT_TRUE(trees.ok()) << trees.status();
  std::filesystem::rename(Path("a"), Path("renamed"));
  const auto table = served_->PrepareTrees(*trees);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)->size(), 2u);
}

TEST_F(ServerTest, InvalidExportsAreErrors) {
  EXPECT_THAT(
      std::string(ServedExports::Open({exports_[0], exports_[0]}, Path("key")).status().message()),
      HasSubstr("exported twice"));
  EXPECT_THAT(
      std::string(
          ServedExports::Open({{.directory = Path("none")}}, Path("key")).status().message()),
      HasSubstr("none"));
}

}  // namespace
}  // namespace pollux::nfs
