#include "nfs/mount/mount_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nfs/client/mount_client.h"
#include "nfs/storage/stalled_storage_for_test.h"
#include "oncrpc/codec.h"
#include "oncrpc/service_call_for_test.h"
#include "oncrpc/socket_address.h"
#include "oncrpc/tcp_service.h"
#include "oncrpc/udp_service.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;

const Gid kLocal = ParseAddress("127.0.0.1").value();

// The exports /a (ours), /a/deep (read-only) and /b (for another client).
class MountCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status status = Identity().Begin(); !status.ok()) {
      GTEST_SKIP() << status.message();
    }
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/mountXXXXXX";
    directory_ = mkdtemp(pattern.data());
    std::vector<Export> exports;
    for (const char* name : {"a", "a/deep", "b"}) {
      ASSERT_EQ(mkdir(Path(name).c_str(), 0755), 0);
      exports.push_back({.directory = Path(name), .clients = {{}}});
    }
    exports[2].clients[0].network = {.address = *ParseAddress("192.0.2.0"), .prefix_length = 24};
    auto opened = ServedExports::Open(exports, Path("key"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    exports_ = *std::move(opened);
    calls_ = std::make_unique<MountCalls>(exports_.get(), [this](const std::string& line) {
      lines_.push_back(absl::StrReplaceAll(line, {{directory_, ""}}));
    });
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  // The reply's header; its results in results_.
  template <class Args>
  oncrpc::ReplyHeader Ask(const oncrpc::CallHeader& header, const Args& args,
                          const Gid& client = kLocal, bool connected = true) {
    reply_ = oncrpc::AskService(
                 MountCalls::kProgram, header, args, client,
                 [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); }, connected)
                 .get();
    oncrpc::ReplyHeader reply;
    const size_t begin = oncrpc::ParseReply(reply_, &reply);
    EXPECT_GT(begin, 0u);
    results_ = absl::MakeConstSpan(reply_).subspan(begin);
    return reply;
  }
  static oncrpc::CallHeader Header(uint32_t procedure) {
    return {.xid = 5, .program = kMountProgram, .version = kMountV3, .procedure = procedure};
  }
  template <class Args>
  oncrpc::AcceptStatus Ask(MountProcedure procedure, const Args& args, const Gid& client = kLocal) {
    return Ask(Header(static_cast<uint32_t>(procedure)), args, client).accept_status;
  }
  MountRes Mount(const std::string& path, const Gid& client = kLocal) {
    MountRes result;
    EXPECT_EQ(Ask(MountProcedure::kMnt, Dirpath{{path}}, client), oncrpc::AcceptStatus::kSuccess);
    EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(results_), &result)) << path;
    return result;
  }
  std::vector<std::string> Dump() {
    Mountlist list;
    EXPECT_EQ(Ask(MountProcedure::kDump, oncrpc::Void{}), oncrpc::AcceptStatus::kSuccess);
    EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(results_), &list));
    std::vector<std::string> all;
    for (const Mountbody& one : list.items) {
      all.push_back(absl::StrCat(std::string(one.hostname.text), " ",
                                 std::string(one.directory.text.substr(directory_.size()))));
    }
    return all;
  }

  std::string directory_;
  std::vector<std::string> lines_;  // of the log
  std::unique_ptr<ServedExports> exports_;
  std::unique_ptr<MountCalls> calls_;
  std::vector<uint8_t> reply_;
  absl::Span<const uint8_t> results_;
};

TEST_F(MountCallsTest, MountReturnsTheHandleOfTheExport) {
  const MountRes root = Mount(Path("a"));
  ASSERT_EQ(root.status, Nfsstat3::kOk);
  EXPECT_THAT(root.resok.auth_flavors.items, ElementsAre(1, 0));
  const ExportTree& tree = *exports_->table()->at(0).tree;
  EXPECT_EQ(root.resok.fhandle, *tree.HandleOf(tree.root()));
  EXPECT_EQ(Mount(Path("a/")).resok.fhandle, root.resok.fhandle);
  // The inner export, not the directory of the outer one.
  const ExportTree& deep = *exports_->table()->at(1).tree;
  EXPECT_EQ(Mount(Path("a/deep")).resok.fhandle, *deep.HandleOf(deep.root()));
  ASSERT_EQ(mkdir(Path("a/sub").c_str(), 0755), 0);
  Fd object;
  EXPECT_EQ(tree.Find(Mount(Path("a/sub")).resok.fhandle.span(), &object), Nfsstat3::kOk);
}

TEST_F(MountCallsTest, ExportsAreFoundHoweverThePathIsWritten) {
  const ExportTree& deep = *exports_->table()->at(1).tree;
  for (const std::string& path : {Path("a//deep"), Path("/a/./deep/"), "//." + Path("a/deep/.")}) {
    EXPECT_EQ(Mount(path).resok.fhandle, *deep.HandleOf(deep.root())) << path;
  }
}

TEST_F(MountCallsTest, SymbolicLinksAreFollowedInsideTheExport) {
  std::filesystem::create_directories(Path("a/sub/leaf"));
  ASSERT_EQ(symlink("sub/leaf", Path("a/leaf").c_str()), 0);
  ASSERT_EQ(symlink("../sub", Path("a/sub/up").c_str()), 0);
  const MountRes leaf = Mount(Path("a/sub/leaf"));
  ASSERT_EQ(leaf.status, Nfsstat3::kOk);
  EXPECT_EQ(Mount(Path("a/leaf")).resok.fhandle, leaf.resok.fhandle);
  EXPECT_EQ(Mount(Path("a/sub/up/leaf")).resok.fhandle, leaf.resok.fhandle);
  ASSERT_EQ(symlink("../b", Path("a/outside").c_str()), 0);
  EXPECT_NE(Mount(Path("a/outside")).status, Nfsstat3::kOk);
  ASSERT_EQ(symlink("outside", Path("a/indirect").c_str()), 0);
  EXPECT_NE(Mount(Path("a/indirect")).status, Nfsstat3::kOk);
}

TEST_F(MountCallsTest, TheInnermostExportThatAdmitsTheClientIsMounted) {
  const Gid other = *ParseAddress("192.0.2.9");
  const Network of_other{.address = other, .prefix_length = 32};
  auto table = exports_->Prepare({{.directory = Path("a"), .clients = {{}}},
                                  {.directory = Path("a/deep"), .clients = {{of_other, {}}}}});
  ASSERT_TRUE(table.ok()) << table.status();
  exports_->Publish(*std::move(table));
  const ExportTree& outer = *exports_->table()->at(0).tree;
  const ExportTree& inner = *exports_->table()->at(1).tree;
  EXPECT_EQ(Mount(Path("a/deep"), other).resok.fhandle, *inner.HandleOf(inner.root()));
  Fd object;
  EXPECT_EQ(outer.Find(Mount(Path("a/deep")).resok.fhandle.span(), &object), Nfsstat3::kOk);
}

TEST_F(MountCallsTest, InvalidPathsGetTheMatchingStatus) {
  EXPECT_EQ(Mount(directory_).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount("/").status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount("").status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount(Path("ab")).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount(Path("a/..")).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount(Path("a/none")).status, Nfsstat3::kNoent);
  EXPECT_TRUE(std::ofstream(Path("a/file")).is_open());
  EXPECT_EQ(Mount(Path("a/file")).status, Nfsstat3::kNotdir);
  EXPECT_EQ(Mount(Path("a/file") + '\0').status, Nfsstat3::kAcces);
  ASSERT_EQ(symlink("/", Path("a/link").c_str()), 0);
  EXPECT_NE(Mount(Path("a/link")).status, Nfsstat3::kOk);
  EXPECT_NE(Mount(Path("a/link/etc")).status, Nfsstat3::kOk);
  EXPECT_EQ(Mount(Path("b")).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount(Path("b"), *ParseAddress("192.0.2.9")).status, Nfsstat3::kOk);
}

TEST_F(MountCallsTest, ReplacedExportsHoldForTheNextMount) {
  ASSERT_EQ(mkdir(Path("c").c_str(), 0755), 0);
  auto table = exports_->Prepare({{.directory = Path("c"), .clients = {{}}}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Mount(Path("a")).status, Nfsstat3::kOk);
  exports_->Publish(*std::move(table));
  EXPECT_EQ(Mount(Path("a")).status, Nfsstat3::kAcces);
  EXPECT_EQ(Mount(Path("c")).status, Nfsstat3::kOk);
}

TEST_F(MountCallsTest, RefusalsAreLoggedOnce) {
  Mount(Path("a"));
  for (int i = 0; i < 2; ++i) {
    Mount(directory_ + "/");
    Mount(Path("b"));
    Mount(Path("a/none"));
  }
  EXPECT_THAT(lines_,
              ElementsAre("127.0.0.1 may not mount \"/\": nothing is exported there",
                          "127.0.0.1 may not mount \"/b\": the export /b is for other clients",
                          "127.0.0.1 may not mount \"/a/none\": no such file or directory "
                          "(NFS3ERR_NOENT)"));
}

TEST_F(MountCallsTest, AStalledFileSystemDoesNotDelayOtherMounts) {
  StalledStorage stalled(exports_->all()[0]->storage.get());
  const auto serve = [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); };
  const oncrpc::CallHeader header = Header(static_cast<uint32_t>(MountProcedure::kMnt));
  auto waits =
      oncrpc::AskService(MountCalls::kProgram, header, Dirpath{{Path("a")}}, kLocal, serve);
  EXPECT_EQ(Mount(Path("a/deep")).status, Nfsstat3::kOk);
  EXPECT_THAT(Dump(), ElementsAre("127.0.0.1 /a/deep"));
  EXPECT_GT(exports_->all()[0]->storage->control_work(), 0u);
  stalled.GoOn();
  EXPECT_FALSE(waits.get().empty());
  EXPECT_THAT(Dump(), ElementsAre("127.0.0.1 /a/deep", "127.0.0.1 /a"));
}

// As clients come: who has no answer sends its datagram again, and others come.
TEST_F(MountCallsTest, AStalledFileSystemDoesNotDelayOtherMountsByUdp) {
  auto server = oncrpc::UdpService::Listen(
      0, MountCalls::kMaxCallBytes,
      oncrpc::HandlerOf(MountCalls::kProgram,
                        [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); }));
  ASSERT_TRUE(server.ok()) << server.status();
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto to = oncrpc::ToSockaddr({.address = kLocal, .port = (*server)->port()});
  ASSERT_EQ(connect(socket.get(), to.get(), to.length), 0);
  // A guard against hanging.
  const timeval timeout = {.tv_sec = 100, .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  const auto send_mount = [&](const std::string& path, uint32_t xid) {
    std::vector<uint8_t> message(2048);
    oncrpc::CallHeader header = Header(static_cast<uint32_t>(MountProcedure::kMnt));
    header.xid = xid;
    const size_t at = oncrpc::EmitCall(header, absl::MakeSpan(message));
    message.resize(
        at + oncrpc::Encode(Dirpath{{path}}, absl::MakeSpan(message).subspan(at)).stream.size());
    return send(socket.get(), message.data(), message.size(), 0) > 0;
  };
  StalledStorage stalled(exports_->all()[0]->storage.get());
  for (uint32_t i = 0; i < Storage::kMaxControlCalls; ++i) {
    ASSERT_TRUE(send_mount(Path("a"), i));
    while (exports_->all()[0]->storage->control_work() < Storage::kThreads + i + 1) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(send_mount(Path("a"), i));
  }
  ASSERT_TRUE(send_mount(Path("a"), 1000));
  while ((*server)->dropped() < Storage::kMaxControlCalls) std::this_thread::yield();
  // The server has work of its own there.
  EXPECT_TRUE(exports_->all()[0]->storage->RunControl([](Identity&) {}));
  ASSERT_TRUE(send_mount(Path("a/deep"), 2000));
  std::vector<uint8_t> reply(2048);
  ssize_t size = 0;
  do {
    size = recv(socket.get(), reply.data(), reply.size(), 0);
  } while (size < 0 && errno == EINTR);
  EXPECT_GT(size, 0) << strerror(errno);
  stalled.GoOn();
  while (exports_->control_work() > 0) std::this_thread::yield();
}

TEST_F(MountCallsTest, AListTooLongForADatagramIsASystemError) {
  constexpr uint32_t kEnough = oncrpc::ServiceCall::kMaxListByDatagram / 8;
  for (uint32_t i = 0; i < kEnough; ++i) Mount(Path("a"), Gid::FromIpv4(i));
  EXPECT_EQ(Dump().size(), kEnough);
  const auto header = Header(static_cast<uint32_t>(MountProcedure::kDump));
  EXPECT_EQ(Ask(header, oncrpc::Void(), kLocal, /*connected=*/false).accept_status,
            oncrpc::AcceptStatus::kSystemError);
  EXPECT_TRUE(results_.empty());
}

TEST_F(MountCallsTest, DumpListsClientsAndTheirMounts) {
  const Gid other = *ParseAddress("192.0.2.9");
  Mount(Path("a"));
  Mount(Path("a"));
  Mount(Path("b"));  // refused
  Mount(Path("b"), other);
  Mount(Path("a"), other);
  EXPECT_THAT(Dump(), ElementsAre("127.0.0.1 /a", "192.0.2.9 /b", "192.0.2.9 /a"));
  Ask(MountProcedure::kUmnt, Dirpath{{Path("a")}});
  EXPECT_THAT(Dump(), ElementsAre("192.0.2.9 /b", "192.0.2.9 /a"));
  Ask(MountProcedure::kUmntall, oncrpc::Void{}, other);
  EXPECT_THAT(Dump(), ElementsAre());
  for (size_t i = 0; i <= MountCalls::kMaxRemembered; ++i) {
    Mount(Path("b"), Gid::FromIpv4(0xC0000200 + static_cast<uint32_t>(i % 256)));
    Mount(Path("a"), Gid::FromIpv4(static_cast<uint32_t>(i)));
  }
  EXPECT_EQ(Dump().size(), MountCalls::kMaxRemembered);
}

TEST_F(MountCallsTest, ExportListsDirectoriesAndGroups) {
  Exports exports;
  Ask(MountProcedure::kExport, oncrpc::Void{});
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(results_), &exports));
  ASSERT_EQ(exports.items.size(), 3u);
  EXPECT_EQ(exports.items[0].dir.text, Path("a"));
  EXPECT_EQ(exports.items[0].groups.items[0].name.text, "*");
  EXPECT_EQ(exports.items[2].groups.items[0].name.text, "192.0.2.0/24");
}

TEST_F(MountCallsTest, UnknownProceduresAndMalformedArgumentsAreRefused) {
  using oncrpc::AcceptStatus;
  EXPECT_EQ(Ask(MountProcedure::kNull, oncrpc::Void{}), AcceptStatus::kSuccess);
  EXPECT_EQ(Ask(Header(6), oncrpc::Void{}).accept_status, AcceptStatus::kProcedureUnavailable);
  EXPECT_EQ(Ask(MountProcedure::kMnt, oncrpc::Void{}), AcceptStatus::kGarbageArguments);
  oncrpc::CallHeader header = Header(0);
  header.version = 1;
  oncrpc::ReplyHeader reply = Ask(header, oncrpc::Void{});
  EXPECT_EQ(reply.accept_status, AcceptStatus::kProgramMismatch);
  EXPECT_EQ(reply.high, kMountV3);
  header.program = 100003;
  EXPECT_EQ(Ask(header, oncrpc::Void{}).accept_status, AcceptStatus::kProgramUnavailable);
  header.rpc_version = 3;
  reply = Ask(header, oncrpc::Void{});
  EXPECT_TRUE(reply.denied);
  EXPECT_EQ(reply.low, oncrpc::kRpcVersion);
}

TEST_F(MountCallsTest, AClientMountsOverTcp) {
  auto server = oncrpc::TcpService::Listen(
      0, MountCalls::kMaxCallBytes,
      oncrpc::HandlerOf(MountCalls::kProgram,
                        [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); }));
  ASSERT_TRUE(server.ok()) << server.status();
  auto client =
      MountClient::Connect({.address = kLocal, .port = (*server)->port()}, oncrpc::AuthSys());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto listed = client->Exports();
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(*listed, ElementsAre(Path("a"), Path("a/deep"), Path("b")));
  const auto handle = client->Mount(Path("a"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(client->Mount(Path("b")).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(client->Unmount(Path("a")).ok());
}

}  // namespace
}  // namespace pollux::nfs
