// A lock manager that tests call, with exports on a real file system.
#ifndef POLLUX_NFS_LOCK_LOCK_CALLS_FOR_TEST_H_
#define POLLUX_NFS_LOCK_LOCK_CALLS_FOR_TEST_H_

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs/lock/lock_calls.h"
#include "oncrpc/service_call_for_test.h"
#include "stack/base/address.h"

namespace pollux::nfs {

// The exports /rw and /ro, with a file that everybody may write, and the lock manager.
class LockCallsTest : public testing::Test {
 protected:
  // A guard against hanging, not an expectation.
  static constexpr auto kTimeout = std::chrono::seconds(100);
  static constexpr uint32_t kUser = 1234;
  // Of every incarnation.
  static constexpr uint64_t kAll = UINT64_MAX;

  static inline const Gid kOne = Gid::FromIpv4(0x0A000001);
  static inline const Gid kTwo = Gid::FromIpv4(0x0A000002);
  static inline const Gid kServer = Gid::FromIpv4(0x0A0000FE);

  // What clients are told, and what they say to it.
  class Told {
   public:
    LockGranter::Tell tell() {
      return [this](const LockRequest& request) {
        std::unique_lock lock(mutex_);
        answers_.wait(lock, [&] { return request.owner.client.address != silent_; });
        told_.push_back(request);
        came_.notify_one();
        return takes_;
      };
    }
    LockRequest Next() {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(came_.wait_for(lock, kTimeout, [this] { return !told_.empty(); }));
      LockRequest next = std::move(told_.front());
      told_.pop_front();
      return next;
    }
    void Take(bool takes) {
      const std::lock_guard lock(mutex_);
      takes_ = takes;
    }
    // The host that does not answer calls until another name is set.
    void BeSilent(const Gid& client) {
      const std::lock_guard lock(mutex_);
      silent_ = client;
      answers_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::condition_variable answers_;
    std::deque<LockRequest> told_;
    Gid silent_;
    bool takes_ = true;
  };

  // The results that are sent to clients.
  class ResultsTold {
   public:
    struct Result {
      Gid client;
      NlmProcedure procedure;
      std::vector<uint8_t> bytes;
    };
    LockCalls::TellResult tell() {
      return [this](const Gid& client, NlmProcedure procedure, absl::Span<const uint8_t> bytes) {
        const std::lock_guard lock(mutex_);
        told_.push_back({client, procedure, {bytes.begin(), bytes.end()}});
        came_.notify_one();
        return true;
      };
    }
    Result Next() {
      std::unique_lock lock(mutex_);
      EXPECT_TRUE(came_.wait_for(lock, kTimeout, [this] { return !told_.empty(); }));
      Result next = std::move(told_.front());
      told_.pop_front();
      return next;
    }

   private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<Result> told_;
  };

  void SetUp() override {
    if (const absl::Status status = Identity().Begin(); !status.ok()) {
      GTEST_SKIP() << status.message();
    }
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/locksXXXXXX";
    directory_ = mkdtemp(pattern.data());
    std::vector<Export> exports;
    for (const char* name : {"rw", "ro", "elsewhere"}) {
      ASSERT_EQ(mkdir(Path(name).c_str(), 0755), 0);
      const ClientRights rights{.read_only = std::string(name) == "ro"};
      exports.push_back({.directory = Path(name), .clients = {{network_, rights}}});
      MakeFile(Path(name) + "/f");
    }
    exports[2].clients[0].network = {.address = *ParseAddress("192.0.2.0"), .prefix_length = 24};
    auto opened = ServedExports::Open(exports, Path("key"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    exports_ = *std::move(opened);
    tables_ = std::make_unique<LockTables>(*exports_);
    Start();
    file_ = HandleOf(0, "f");
  }
  // Reloads the exports: of /rw and /ro, only this client has rights now.
  void AdmitOnly(const Gid& client) {
    std::vector<Export> exports;
    for (const ExportEntry& entry : *exports_->table()) exports.push_back(entry.tree->exported());
    for (const size_t i : {0, 1}) {
      exports[i].clients[0].network = {.address = client, .prefix_length = 32};
    }
    auto table = exports_->Prepare(exports);
    ASSERT_TRUE(table.ok()) << table.status();
    exports_->Publish(*std::move(table));
  }
  // The lock manager of a server that starts, again or for the first time.
  void Start(std::chrono::seconds grace = kTimeout) {
    calls_.reset();
    hosts_.reset();
    auto hosts = MonitoredHosts::Open(Path("locks"));
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    hosts_ = *std::move(hosts);
    calls_ = std::make_unique<LockCalls>(
        exports_.get(),
        LockCalls::Options{.tell_granted = told_.tell(),
                           .tell_result = results_told_.tell(),
                           .tables = tables_.get(),
                           .hosts = hosts_.get(),
                           .grace = grace,
                           .storage_timeout = storage_timeout_,
                           .log = [this](const std::string& line) { logged_.push_back(line); }});
  }
  // What the server held goes with it.
  void Restart(std::chrono::seconds grace) {
    calls_.reset();
    tables_->Of(*exports_->all()[0]).FreeAll({.address = kOne, .name = "guest"}, kAll);
    tables_->Of(*exports_->all()[0]).FreeAll({.address = kTwo, .name = "guest"}, kAll);
    Start(grace);
  }
  void TearDown() override {
    calls_.reset();
    exports_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  static void MakeFile(const std::string& path) {
    std::ofstream(path) << "text";
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  }
  std::string HandleOf(size_t which, const std::string& name) {
    const ExportTree& tree = *exports_->table()->at(which).tree;
    Fd object;
    EXPECT_EQ(tree.Walk(name, &object), Nfsstat3::kOk);
    const NfsFh3 handle = *tree.HandleOf(object);
    return {handle.bytes.begin(), handle.bytes.begin() + handle.size};
  }

  static Nlm4Lock Of(uint32_t svid, const std::string& file, uint64_t offset = 0,
                     uint64_t length = 0) {
    return {.caller_name = {"guest"},
            .fh = {file},
            .oh = {"process"},
            .svid = svid,
            .l_offset = offset,
            .l_len = length};
  }
  using Reply = std::future<std::vector<uint8_t>>;
  // Sends a call as kUser.
  template <class Args>
  Reply Send(NlmProcedure procedure, const Args& args, const Gid& client) {
    std::vector<uint8_t> credential(oncrpc::kMaxAuthBytes);
    const oncrpc::Encoded encoded =
        oncrpc::Encode(oncrpc::AuthSys{.uid = kUser, .gid = kUser}, absl::MakeSpan(credential));
    const oncrpc::CallHeader header{
        .program = kNlmProgram,
        .version = kNlmV4,
        .procedure = static_cast<uint32_t>(procedure),
        .credential = {.flavor = oncrpc::AuthFlavor::kSys, .body = encoded.stream}};
    return oncrpc::AskService(
        LockCalls::kProgram, header, args, client,
        [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); },
        /*connected=*/true, kServer);
  }
  // Waits for a reply: its header, with what came behind it in results_.
  oncrpc::ReplyHeader Receive(Reply reply) {
    message_ = reply.get();
    oncrpc::ReplyHeader header;
    const size_t begin = oncrpc::ParseReply(message_, &header);
    EXPECT_GT(begin, 0u);
    results_ = absl::MakeConstSpan(message_).subspan(begin);
    return header;
  }
  template <class Res>
  Res ResultsOf(Reply reply) {
    Res results;
    EXPECT_EQ(Receive(std::move(reply)).accept_status, oncrpc::AcceptStatus::kSuccess);
    EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(results_), &results));
    EXPECT_EQ(results.cookie.text, "cookie");
    return results;
  }
  template <class Args>
  oncrpc::ReplyHeader Call(NlmProcedure procedure, const Args& args, const Gid& client) {
    return Receive(Send(procedure, args, client));
  }
  template <class Res, class Args>
  Res Ask(NlmProcedure procedure, const Args& args, const Gid& client) {
    return ResultsOf<Res>(Send(procedure, args, client));
  }
  static Nlm4Lockargs LockArgs(const Nlm4Lock& lock) {
    return {.cookie = {"cookie"}, .exclusive = true, .alock = lock, .state = 1};
  }
  // Sends a LOCK, and waits for its reply.
  Reply Begin(const Nlm4Lock& lock, const Gid& client = kOne) {
    return Send(NlmProcedure::kLock, LockArgs(lock), client);
  }
  Nlm4Stats End(Reply reply) { return ResultsOf<Nlm4Res>(std::move(reply)).stat; }
  Nlm4Stats Lock(const Nlm4Lock& lock, const Gid& client = kOne, bool block = false,
                 uint32_t state = 1) {
    Nlm4Lockargs args = LockArgs(lock);
    args.block = block;
    args.state = state;
    return Ask<Nlm4Res>(NlmProcedure::kLock, args, client).stat;
  }
  Nlm4Stats Reclaim(const Nlm4Lock& lock, const Gid& client) {
    Nlm4Lockargs args = LockArgs(lock);
    args.reclaim = true;
    return Ask<Nlm4Res>(NlmProcedure::kLock, args, client).stat;
  }
  Nlm4Stats Test(const Nlm4Lock& lock, const Gid& client) {
    const Nlm4Testargs args{.cookie = {"cookie"}, .exclusive = true, .alock = lock};
    return Ask<Nlm4Testres>(NlmProcedure::kTest, args, client).stat;
  }
  Nlm4Stats Unlock(const Nlm4Lock& lock, const Gid& client = kOne) {
    return Ask<Nlm4Res>(NlmProcedure::kUnlock, Nlm4Unlockargs{.cookie = {"cookie"}, .alock = lock},
                        client)
        .stat;
  }

  std::optional<Network> network_;  // of the clients of /rw and /ro; none: everybody
  std::chrono::steady_clock::duration storage_timeout_ = kTimeout;
  std::string directory_, file_;
  std::unique_ptr<MonitoredHosts> hosts_;
  std::unique_ptr<LockTables> tables_;
  std::unique_ptr<ServedExports> exports_;
  Told told_;
  ResultsTold results_told_;
  std::vector<std::string> logged_;
  std::unique_ptr<LockCalls> calls_;
  std::vector<uint8_t> message_;
  absl::Span<const uint8_t> results_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_LOCK_LOCK_CALLS_FOR_TEST_H_
