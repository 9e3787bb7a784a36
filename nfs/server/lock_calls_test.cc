#include "nfs/server/lock_calls.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "nfs/server/control_for_test.h"
#include "stack/net/address.h"

namespace pollux::nfs {
namespace {

// A guard against hanging, not an expectation.
constexpr auto kPatience = std::chrono::seconds(100);
constexpr uint32_t kUser = 1234;

const Gid kOne = Gid::FromIpv4(0x0A000001), kTwo = Gid::FromIpv4(0x0A000002);

// What clients are told, and what they say to it.
class Told {
 public:
  LockGranter::Tell tell() {
    return [this](const LockRequest& request) {
      const std::lock_guard lock(mutex_);
      told_.push_back(request);
      came_.notify_one();
      return takes_;
    };
  }
  LockRequest Next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, kPatience, [this] { return !told_.empty(); }));
    LockRequest next = std::move(told_.front());
    told_.pop_front();
    return next;
  }
  void Take(bool takes) {
    const std::lock_guard lock(mutex_);
    takes_ = takes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<LockRequest> told_;
  bool takes_ = true;
};

// The exports /rw and /ro, with a file that everybody may write, and the lock manager.
class LockCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status status = Identity().Begin(); !status.ok()) {
      GTEST_SKIP() << status.message();
    }
    std::string pattern = std::string(getenv("TEST_TMPDIR")) + "/locksXXXXXX";
    directory_ = mkdtemp(pattern.data());
    std::vector<Export> exports;
    for (const char* name : {"rw", "ro", "elsewhere"}) {
      ASSERT_EQ(mkdir(Path(name).c_str(), 0755), 0);
      exports.push_back({.directory = Path(name), .read_only = std::string(name) == "ro"});
      std::ofstream(Path(name) + "/f") << "text";
      ASSERT_EQ(chmod((Path(name) + "/f").c_str(), 0666), 0);
    }
    exports[2].clients = {{.address = *net::ParseAddress("192.0.2.0"), .prefix_length = 24}};
    auto opened = ServedExports::Open(exports, Path("key"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    exports_ = *std::move(opened);
    calls_ = std::make_unique<LockCalls>(exports_.get(), told_.tell());
    file_ = HandleOf(0, "f");
  }
  void TearDown() override {
    calls_.reset();
    exports_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string HandleOf(size_t which, const std::string& name) {
    const ExportTree& tree = *exports_->all()[which]->tree;
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
  // Sends a call as kUser; its reply's header, with what came behind it in results_.
  template <class Args>
  rpcrdma::ReplyHeader Call(NlmProcedure procedure, const Args& args, const Gid& client) {
    std::vector<uint8_t> credential(rpcrdma::kMaxAuthBytes);
    const Encoded encoded = Encode(AuthSys{.uid = kUser, .gid = kUser}, absl::MakeSpan(credential));
    const rpcrdma::CallHeader header{
        .program = kNlmProgram,
        .version = kNlmV4,
        .procedure = static_cast<uint32_t>(procedure),
        .credential = {.flavor = rpcrdma::AuthFlavor::kSys, .body = encoded.stream}};
    message_ = AskControl(LockCalls::kProgram, header, args, client, [this](ControlCall call) {
                 calls_->Serve(std::move(call));
               }).get();
    rpcrdma::ReplyHeader reply;
    const size_t begin = rpcrdma::ParseReply(message_, &reply);
    EXPECT_GT(begin, 0u);
    results_ = absl::MakeConstSpan(message_).subspan(begin);
    return reply;
  }
  template <class Res, class Args>
  Res Ask(NlmProcedure procedure, const Args& args, const Gid& client) {
    Res results;
    EXPECT_EQ(Call(procedure, args, client).accept_status, rpcrdma::AcceptStatus::kSuccess);
    EXPECT_TRUE(Decode(rpcrdma::XdrReader(results_), &results));
    EXPECT_EQ(results.cookie.text, "cookie");
    return results;
  }
  Nlm4Stats Lock(const Nlm4Lock& lock, const Gid& client = kOne, bool block = false,
                 uint32_t state = 1) {
    const Nlm4Lockargs args{
        .cookie = {"cookie"}, .block = block, .exclusive = true, .alock = lock, .state = state};
    return Ask<Nlm4Res>(NlmProcedure::kLock, args, client).stat;
  }
  Nlm4Stats Unlock(const Nlm4Lock& lock, const Gid& client = kOne) {
    return Ask<Nlm4Res>(NlmProcedure::kUnlock, Nlm4Unlockargs{.cookie = {"cookie"}, .alock = lock},
                        client)
        .stat;
  }

  std::string directory_, file_;
  std::unique_ptr<ServedExports> exports_;
  Told told_;
  std::unique_ptr<LockCalls> calls_;
  std::vector<uint8_t> message_;
  absl::Span<const uint8_t> results_;
};

TEST_F(LockCallsTest, LockTestAndUnlock) {
  EXPECT_EQ(Lock(Of(7, file_, 10, 10)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(7, file_, 15, 10), kTwo), Nlm4Stats::kDenied);
  EXPECT_EQ(Lock(Of(8, file_, 15, 10)), Nlm4Stats::kDenied);
  EXPECT_EQ(Lock(Of(8, file_, 20)), Nlm4Stats::kGranted);
  const Nlm4Testargs asked{.cookie = {"cookie"}, .alock = Of(8, file_)};
  const auto held = Ask<Nlm4Testres>(NlmProcedure::kTest, asked, kTwo);
  EXPECT_EQ(held.stat, Nlm4Stats::kDenied);
  EXPECT_TRUE(held.holder.exclusive);
  EXPECT_EQ(held.holder.svid, 7u);
  EXPECT_EQ(held.holder.oh.text, "process");
  EXPECT_EQ(held.holder.l_offset, 10u);
  EXPECT_EQ(held.holder.l_len, 10u);
  EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Unlock(Of(8, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Testres>(NlmProcedure::kTest, asked, kTwo).stat, Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, WhoWaitsIsTold) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  Unlock(Of(7, file_));
  const LockRequest told = told_.Next();
  EXPECT_EQ(told.owner.client.address, kTwo);
  EXPECT_EQ(told.owner.svid, 9u);
  EXPECT_EQ(told.file, file_);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDenied);
  // Who does not want it any more does not keep the next from it.
  told_.Take(false);
  EXPECT_EQ(Lock(Of(7, file_), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Lock(Of(8, file_), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  Unlock(Of(9, file_), kTwo);
  EXPECT_EQ(told_.Next().owner.svid, 7u);
  EXPECT_EQ(told_.Next().owner.svid, 8u);
}

TEST_F(LockCallsTest, CancelledBeforeItsTurn) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  const Nlm4Cancargs args{
      .cookie = {"cookie"}, .block = true, .exclusive = true, .alock = Of(9, file_)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kOne).stat, Nlm4Stats::kDenied);
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kTwo).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kTwo).stat, Nlm4Stats::kDenied);
}

TEST_F(LockCallsTest, AClientThatStartsAnewHoldsNothing) {
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 3), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(8, file_, 0, 1), kOne, false, 3), Nlm4Stats::kDenied);
  EXPECT_EQ(Lock(Of(8, file_, 0, 1), kOne, false, 5), Nlm4Stats::kGranted);
  // Or says so itself.
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Call(NlmProcedure::kFreeAll, Nlm4Notify{.name = {"guest"}}, kOne).accept_status,
            rpcrdma::AcceptStatus::kSuccess);
  EXPECT_EQ(told_.Next().owner.svid, 9u);
}

TEST_F(LockCallsTest, Shares) {
  Nlm4Shareargs args{.cookie = {"cookie"},
                     .share = {.caller_name = {"guest"},
                               .fh = {file_},
                               .oh = {"o"},
                               .mode = kFsh4Both,
                               .access = kFsh4Both}};
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, args, kOne).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, args, kTwo).stat, Nlm4Stats::kDenied);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kUnshare, args, kOne).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, args, kTwo).stat, Nlm4Stats::kGranted);
  args.reclaim = true;
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, args, kTwo).stat,
            Nlm4Stats::kDeniedGracePeriod);
}

TEST_F(LockCallsTest, WhatCannotBeLocked) {
  EXPECT_EQ(Lock(Of(7, "no handle")), Nlm4Stats::kStaleFh);
  std::string forged = file_;
  forged.back() = static_cast<char>(forged.back() ^ 1);
  EXPECT_EQ(Lock(Of(7, forged)), Nlm4Stats::kStaleFh);
  EXPECT_EQ(Lock(Of(7, HandleOf(0, ""))), Nlm4Stats::kFailed);
  EXPECT_EQ(Lock(Of(7, HandleOf(1, "f"))), Nlm4Stats::kRofs);
  EXPECT_EQ(Lock(Of(7, HandleOf(2, "f"))), Nlm4Stats::kFailed);
  EXPECT_EQ(Lock(Of(7, HandleOf(2, "f")), *net::ParseAddress("192.0.2.7")), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(7, file_, uint64_t{1} << 63)), Nlm4Stats::kFbig);
  const Nlm4Lockargs again{.cookie = {"cookie"}, .alock = Of(7, file_), .reclaim = true};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kNmLock, again, kOne).stat, Nlm4Stats::kDeniedGracePeriod);
  // A reader may lock as a reader.
  ASSERT_EQ(chmod(Path("rw/f").c_str(), 0444), 0);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kFailed);
  const Nlm4Lockargs shared{.cookie = {"cookie"}, .alock = Of(7, file_)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kLock, shared, kOne).stat, Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, WhatIsNoneOfItsCalls) {
  using rpcrdma::AcceptStatus;
  EXPECT_EQ(Call(NlmProcedure::kNull, Void(), kOne).accept_status, AcceptStatus::kSuccess);
  EXPECT_EQ(Call(NlmProcedure::kLock, Void(), kOne).accept_status, AcceptStatus::kGarbageArguments);
  EXPECT_EQ(Call(NlmProcedure::kFreeAll, Void(), kOne).accept_status,
            AcceptStatus::kGarbageArguments);
  for (const auto procedure : {NlmProcedure::kGranted, NlmProcedure{7}, NlmProcedure{24}}) {
    EXPECT_EQ(Call(procedure, Void(), kOne).accept_status, AcceptStatus::kProcedureUnavailable);
  }
}

}  // namespace
}  // namespace pollux::nfs
