// Clients and a server on two ports connected by rings, with files on a real file system.
#ifndef POLLUX_NFS_SERVER_SERVER_FOR_TEST_H_
#define POLLUX_NFS_SERVER_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nfs/client/client.h"
#include "nfs/server/server.h"
#include "nfs/v3/attributes.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/file_system.h"
#include "stack/base/eventually_for_test.h"
#include "stack/base/stats.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"

namespace pollux::nfs {

inline constexpr uint32_t kServerAddress = 0xC0000201, kClientAddress = 0xC0000202;
inline constexpr uint32_t kUser = 1234;

class ServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 256}).ok()); }

  void SetUp() override {
    if (const absl::Status status = Identity().Begin(); !status.ok()) {
      GTEST_SKIP() << status.message();
    }
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/nfsXXXXXX";
    directory_ = mkdtemp(pattern.data());
    for (const char* name : {"a", "b"}) {
      ASSERT_EQ(mkdir(Path(name).c_str(), 0777), 0);
      exports_.push_back({.directory = Path(name), .clients = {{.rights = {.read_only = false}}}});
    }
    engine::DeviceOptions server, client;
    server.addresses = {InterfaceAddress::Ipv4(kServerAddress)};
    client.addresses = {InterfaceAddress::Ipv4(kClientAddress)};
    auto pair = engine::Device::OpenPair(server, client);
    ASSERT_TRUE(pair.ok()) << pair.status();
    server_device_ = std::move(pair->first);
    client_device_ = std::move(pair->second);
    server_manager_ = *cm::Manager::Create(&server_device_->worker());
    client_manager_ = *cm::Manager::Create(&client_device_->worker());
    now_ns_ = std::max(server_device_->worker().now_ns(), client_device_->worker().now_ns());
    looked_ns_ = clock_->NowNs();
  }
  void TearDown() override {
    if (server_device_ == nullptr) return;
    for (auto& client : clients_) {
      bool gone = false;
      client->Disconnect([&] { gone = true; });
      EXPECT_TRUE(RunUntil([&] { return gone; }));
    }
    clients_.clear();
    StopServer();
    client_manager_.reset();
    server_manager_.reset();
    client_device_->Close();
    server_device_->Close();
    std::filesystem::remove_all(directory_);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  bool RunUntil(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kHangGuard;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      const uint64_t now_ns = NextNs();
      bool busy = server_device_->worker().Poll(now_ns);
      busy |= client_device_->worker().Poll(now_ns);
      if (!busy) sched_yield();
    }
    return true;
  }
  // The workers' time at the next poll. It advances little while this thread does something else or
  // gets no CPU, so that nothing times out because it was not polled.
  uint64_t NextNs() {
    constexpr uint64_t kMaxStepNs = 20'000'000;
    const uint64_t clock_ns = clock_->NowNs();
    now_ns_ += std::min(clock_ns - looked_ns_, kMaxStepNs);
    looked_ns_ = clock_ns;
    return now_ns_;
  }

  void StartServer() {
    auto opened = ServedExports::Open(exports_, Path("key"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    served_ = *std::move(opened);
    ServerOptions options;
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    options.log_refusal = [this](const std::string& line) { lines_.push_back(line); };
    auto server = Server::Listen(&server_device_->worker(), server_manager_.get(), served_.get(),
                                 std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Serves exports_ instead of the current exports, as a reload does.
  void ReplaceExports() {
    auto table = served_->Prepare(exports_);
    ASSERT_TRUE(table.ok()) << table.status();
    server_->Serve(**table);
    served_->Publish(*std::move(table));
  }
  void StopServer() {
    if (server_ == nullptr) return;
    server_->Shutdown();
    EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0 && server_->busy() == 0; }));
    server_.reset();
    served_.reset();
  }
  Client* Connect(const oncrpc::AuthSys& who = {
                      .machinename = {"here"}, .uid = kUser, .gid = kUser}) {
    auto made = Client::Create(&client_device_->worker(), client_manager_.get(), who);
    EXPECT_TRUE(made.ok()) << made.status();
    std::optional<absl::Status> connected;
    EXPECT_TRUE((*made)
                    ->Connect({.address = Gid::FromIpv4(kServerAddress), .port = kNfsRdmaPort},
                              [&](absl::Status status) { connected = status; })
                    .ok());
    EXPECT_TRUE(RunUntil([&] { return connected.has_value(); }));
    EXPECT_TRUE(connected->ok()) << *connected;
    clients_.push_back(*std::move(made));
    Client* const client = clients_.back().get();
    // Until the first reply a client may have only one call outstanding.
    const FsinfoArgs args{HandleOf(1)};
    EXPECT_EQ(Run<FsinfoRes>(client, Procedure::kFsinfo, args), Nfsstat3::kOk);
    return client;
  }

  NfsFh3 HandleOf(size_t number, const std::string& path = "") const {
    const ExportTree& tree = *served_->table()->at(number).tree;
    Fd object;
    EXPECT_EQ(tree.Walk(path, &object), Nfsstat3::kOk) << path;
    return *tree.HandleOf(object);
  }
  // Makes a call and returns its status. `look` receives the results.
  template <class Res, class Args>
  Nfsstat3 Run(
      Client* client, Procedure procedure, const Args& args,
      const std::function<void(const Res&)>& look = [](const Res&) {},
      const Client::Room& room = {}) {
    std::optional<Nfsstat3> found;
    client->Call<Res>(procedure, args, room, [&](absl::Status status, const Res* results) {
      EXPECT_TRUE(status.ok()) << status;
      found = results == nullptr ? Nfsstat3::kServerfault : results->status;
      if (results != nullptr) look(*results);
    });
    EXPECT_TRUE(RunUntil([&] { return found.has_value(); }));
    return *found;
  }
  Nfsstat3 Getattr(Client* client, const NfsFh3& handle) {
    return Run<GetattrRes>(client, Procedure::kGetattr, GetattrArgs{handle});
  }
  NfsFh3 CreateFile(Client* client, const NfsFh3& directory, std::string_view name) {
    NfsFh3 made;
    const CreateArgs args{.where = {.dir = directory, .name = {name}},
                          .how = {.obj_attributes = {.mode = 0640}}};
    EXPECT_EQ(Run<CreateRes>(client, Procedure::kCreate, args,
                             [&](const CreateRes& results) { made = *results.resok.obj; }),
              Nfsstat3::kOk);
    return made;
  }
  // The number of calls that were repeated while the first one was still running.
  uint64_t DuplicatesJoined() {
    Stats stats;
    EXPECT_TRUE(server_device_->worker().Collect({.topic = "rpc"}, &stats));
    for (const auto& [name, value] : stats.fields()) {
      if (name == "server/duplicates_joined") return std::get<uint64_t>(value);
    }
    return 0;
  }
  // Starts `count` READs. Each increments *done when it ends.
  void BeginReads(Client* client, const NfsFh3& file, int count, int* done) {
    for (int i = 0; i < count; ++i) {
      client->Call<ReadRes>(Procedure::kRead, ReadArgs{.file = file, .count = 4},
                            {.item = absl::MakeSpan(sink_)},
                            [done](absl::Status status, const ReadRes* results) {
                              ASSERT_TRUE(status.ok()) << status;
                              EXPECT_EQ(results->status, Nfsstat3::kOk);
                              EXPECT_EQ(results->resok.count, 4u);
                              ++*done;
                            });
    }
  }

  std::string directory_;
  std::vector<Export> exports_;
  std::vector<std::string> lines_;  // lines of the server's log
  std::unique_ptr<engine::Device> server_device_, client_device_;
  std::unique_ptr<cm::Manager> server_manager_, client_manager_;
  std::unique_ptr<ServedExports> served_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::optional<engine::Clock> clock_{std::in_place};
  uint64_t now_ns_ = 0, looked_ns_ = 0;  // the workers' time, and the clock's at the last poll
  std::array<uint8_t, 4> sink_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVER_FOR_TEST_H_
