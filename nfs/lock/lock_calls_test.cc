#include "nfs/lock/lock_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "nfs/lock/lock_calls_for_test.h"
#include "nfs/server/stalled_file_for_test.h"
#include "nfs/storage/stalled_storage_for_test.h"
#include "oncrpc/service_call_for_test.h"
#include "oncrpc/tcp_service.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LockCallsTest, LockTestAndUnlockFollowTheHeldRanges) {
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

TEST_F(LockCallsTest, AWaitingClientGetsAGrantedCall) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  Unlock(Of(7, file_));
  const LockRequest told = told_.Next();
  EXPECT_EQ(told.owner.client.address, kTwo);
  EXPECT_EQ(told.owner.svid, 9u);
  EXPECT_EQ(told.file, file_);
  EXPECT_EQ(told.server, kServer);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDenied);
  // Who does not want it any more does not keep the next from it.
  told_.Take(false);
  EXPECT_EQ(Lock(Of(7, file_), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Lock(Of(8, file_), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  Unlock(Of(9, file_), kTwo);
  EXPECT_EQ(told_.Next().owner.svid, 7u);
  EXPECT_EQ(told_.Next().owner.svid, 8u);
}

TEST_F(LockCallsTest, OnlyTheWaitingClientCanCancel) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  const Nlm4Cancargs args{
      .cookie = {"cookie"}, .block = true, .exclusive = true, .alock = Of(9, file_)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kOne).stat, Nlm4Stats::kDenied);
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kTwo).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, args, kTwo).stat, Nlm4Stats::kDenied);
}

TEST_F(LockCallsTest, LocksOfARestartedClientAreReleased) {
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 3), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(8, file_, 0, 1), kOne, false, 3), Nlm4Stats::kDenied);
  EXPECT_EQ(Lock(Of(8, file_, 0, 1), kOne, false, 5), Nlm4Stats::kGranted);
  // Or says so itself.
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Call(NlmProcedure::kFreeAll, Nlm4Notify{.name = {"guest"}}, kOne).accept_status,
            oncrpc::AcceptStatus::kSuccess);
  EXPECT_EQ(told_.Next().owner.svid, 9u);
}

// A client's status monitor says so, once or several times.
TEST_F(LockCallsTest, LocksOfARestartedHostAreReleased) {
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 3), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_TRUE(calls_->HasRestarted(kOne, 3));
  EXPECT_TRUE(calls_->HasRestarted(Gid::FromIpv4(1), 5));
  EXPECT_TRUE(calls_->HasRestarted(kOne, 5, "another"));
  EXPECT_EQ(Test(Of(8, file_), kOne), Nlm4Stats::kDenied);
  EXPECT_TRUE(calls_->HasRestarted(kOne, 5));
  EXPECT_EQ(told_.Next().owner.svid, 9u);
  Unlock(Of(9, file_), kTwo);
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 5), Nlm4Stats::kGranted);
  EXPECT_TRUE(calls_->HasRestarted(kOne, 5));
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kDenied);
}

// The request was delayed until after a restart. The client keeps its current locks.
TEST_F(LockCallsTest, ALockWithAnEarlierStateIsDenied) {
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 5), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(8, file_), kOne, false, 3), Nlm4Stats::kDeniedGracePeriod);
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kDenied);
  EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, ALockThatIsGivenUpBeforeItIsTakenIsDenied) {
  const Nlm4Lock lock = Of(7, file_, 10, 10);
  MakeFile(Path("rw/g"));
  const std::string other = HandleOf(0, "g");
  const Nlm4Cancargs cancel{.cookie = {"cookie"}, .exclusive = true, .alock = lock};
  const std::function<void()> ways[] = {
      [&] { EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kGranted); },
      [&] {
        EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, cancel, kOne).stat, Nlm4Stats::kGranted);
      },
      [&] { EXPECT_TRUE(calls_->HasRestarted(kOne, 3)); },
      [&] { EXPECT_TRUE(calls_->HasRestarted(kOne, 3, "guest.lan")); },
      [&] { Call(NlmProcedure::kFreeAll, Nlm4Notify{.name = {"guest"}}, kOne); },
      [&] { EXPECT_TRUE(calls_->Drop(kOne).ok()); },
      // It restarts, and locks another file.
      [&] {
        EXPECT_EQ(Lock(Of(7, other), kOne, false, 1), Nlm4Stats::kGranted);
        EXPECT_EQ(Lock(Of(7, other), kOne, false, 3), Nlm4Stats::kGranted);
        EXPECT_EQ(Unlock(Of(7, other)), Nlm4Stats::kGranted);
      }};
  for (const auto& give_up : ways) {
    Reply begun;
    {
      const StalledFile stalled(Path("rw/f"));
      begun = Begin(lock);
      give_up();
    }
    EXPECT_EQ(End(std::move(begun)), Nlm4Stats::kDenied);
    EXPECT_TRUE(tables_->Held().empty());
  }
}

TEST_F(LockCallsTest, LocksThatAreNotMeantOrComeLaterAreNotGivenUp) {
  std::vector<Reply> kept;
  Reply denied;
  {
    const StalledFile stalled(Path("rw/f"));
    denied = Begin(Of(7, file_, 10, 10));
    kept.push_back(Begin(Of(7, file_, 20, 10)));
    EXPECT_EQ(Unlock(Of(7, file_, 25, 5)), Nlm4Stats::kGranted) << "a part";
    kept.push_back(Begin(Of(8, file_, 30, 10)));
    kept.push_back(Begin(Of(7, file_, 40, 10), kTwo));
    EXPECT_EQ(Unlock(Of(7, file_, 10, 10)), Nlm4Stats::kGranted);
    kept.push_back(Begin(Of(7, file_, 10, 5)));
    EXPECT_TRUE(calls_->HasRestarted(kOne, 1));
    EXPECT_TRUE(calls_->HasRestarted(kOne, 3, "another"));
  }
  EXPECT_EQ(End(std::move(denied)), Nlm4Stats::kDenied);
  for (auto& lock : kept) EXPECT_EQ(End(std::move(lock)), Nlm4Stats::kGranted);
  EXPECT_EQ(Test(Of(9, file_, 10, 5), kTwo), Nlm4Stats::kDenied);
  EXPECT_EQ(Test(Of(9, file_, 15, 5), kTwo), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, AfterARestartOnlyEarlierHoldersMayReclaim) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Reclaim(Of(7, file_), kOne), Nlm4Stats::kDeniedGracePeriod);
  Restart(kTimeout);
  EXPECT_EQ(hosts_->before(), std::set<Gid>{kOne});
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kDeniedGracePeriod);
  EXPECT_EQ(Test(Of(9, file_), kTwo), Nlm4Stats::kDeniedGracePeriod);
  // Who held none has none to reclaim.
  EXPECT_EQ(Reclaim(Of(9, file_), kTwo), Nlm4Stats::kDeniedGracePeriod);
  EXPECT_EQ(Reclaim(Of(7, file_), kOne), Nlm4Stats::kGranted);
  // What was reclaimed may be given up at once.
  EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kGranted);
  Restart(std::chrono::seconds(0));
  EXPECT_EQ(Reclaim(Of(7, file_), kOne), Nlm4Stats::kDeniedGracePeriod);
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, WithoutEarlierHoldersThereIsNoGracePeriod) {
  Restart(kTimeout);
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, LocksAreRefusedIfTheHostCannotBeRecorded) {
  // In the way of the list.
  ASSERT_EQ(mkdir(Path("locks.new").c_str(), 0700), 0);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDeniedNolocks);
  EXPECT_THAT(logged_, ElementsAre(HasSubstr("locks are refused")));
  ASSERT_EQ(rmdir(Path("locks.new").c_str()), 0);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, RefusedLocksAreLoggedOncePerReasonUntilALockIsTaken) {
  ASSERT_EQ(mkdir(Path("locks.new").c_str(), 0700), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDeniedNolocks);
  EXPECT_EQ(logged_.size(), 1u);
  ASSERT_EQ(rmdir(Path("locks.new").c_str()), 0);
  ASSERT_EQ(symlink("locks.new", Path("locks.new").c_str()), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDeniedNolocks);
  EXPECT_EQ(logged_.size(), 2u);
  ASSERT_EQ(unlink(Path("locks.new").c_str()), 0);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  ASSERT_EQ(symlink("locks.new", Path("locks.new").c_str()), 0);
  EXPECT_EQ(Lock(Of(7, file_), kTwo), Nlm4Stats::kDeniedNolocks);
  EXPECT_EQ(logged_.size(), 3u);
  // While one host can lock and another cannot.
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
    EXPECT_EQ(Lock(Of(7, file_), kTwo), Nlm4Stats::kDeniedNolocks);
  }
  EXPECT_EQ(logged_.size(), LockCalls::kRefusalLinesPerMinute);
}

TEST_F(LockCallsTest, AboveTheLimitHostsWithoutLocksAreRemoved) {
  for (uint32_t i = 0; i < 2 * MonitoredHosts::kCrowded; ++i) {
    ASSERT_TRUE(hosts_->Add(Gid::FromIpv4(0x0B000000 + i)).ok());
  }
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  Restart(kTimeout);
  EXPECT_EQ(hosts_->before(), std::set<Gid>{kOne});
}

TEST_F(LockCallsTest, AboveTheLimitHostsThatTakeALockAreKept) {
  MakeFile(Path("rw/g"));
  ASSERT_TRUE(hosts_->Add(kOne).ok());
  for (uint32_t i = 0; i < MonitoredHosts::kCrowded; ++i) {
    ASSERT_TRUE(hosts_->Add(Gid::FromIpv4(0x0B000000 + i)).ok());
  }
  Reply begun;
  {
    const StalledFile stalled(Path("rw/f"));
    begun = Begin(Of(7, file_));
    EXPECT_EQ(Lock(Of(7, HandleOf(0, "g")), kTwo), Nlm4Stats::kGranted);
    // From now on no host can be added.
    ASSERT_EQ(mkdir(Path("locks.new").c_str(), 0700), 0);
    EXPECT_FALSE(hosts_->Add(Gid::FromIpv4(0x0B000000)).ok()) << "it was not removed";
  }
  EXPECT_EQ(End(std::move(begun)), Nlm4Stats::kGranted);
  ASSERT_EQ(rmdir(Path("locks.new").c_str()), 0);
}

// Names that strangers make up (FREE_ALL asks for no credential, and for no export) drive out who
// holds locks: then his status monitor is not heard any more.
TEST_F(LockCallsTest, InventedNamesDoNotDisplaceLockHolders) {
  EXPECT_EQ(Lock(Of(7, file_), kOne, false, 3), Nlm4Stats::kGranted);
  const oncrpc::CallHeader header{.program = kNlmProgram,
                                  .version = kNlmV4,
                                  .procedure = static_cast<uint32_t>(NlmProcedure::kFreeAll)};
  for (size_t i = 0; i < LockClients::kMaxClients; ++i) {
    const std::string name = std::to_string(i);
    oncrpc::AskService(LockCalls::kProgram, header, Nlm4Notify{.name = {name}},
                       Gid::FromIpv4(0xC6336401),
                       [this](oncrpc::ServiceCall call) { calls_->Serve(std::move(call)); });
  }
  const auto wait = [this] {
    while (exports_->control_work() > 0) std::this_thread::yield();
  };
  wait();
  EXPECT_TRUE(calls_->HasRestarted(kOne, 5));
  wait();
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kGranted);
}

// A client that starts anew says so to an export, and another has no room for the work now.
TEST_F(LockCallsTest, LocksInABusyExportAreReleasedLater) {
  const Gid client = *ParseAddress("192.0.2.1"), other = *ParseAddress("192.0.2.2");
  const std::string elsewhere = HandleOf(2, "f");
  EXPECT_EQ(Lock(Of(7, elsewhere), client, false, 3), Nlm4Stats::kGranted);
  Storage& storage = *exports_->all()[2]->storage;
  StalledStorage stalled(&storage);
  while (storage.RunControl([](Identity&) {})) {
  }
  EXPECT_EQ(Lock(Of(7, file_), client, false, 5), Nlm4Stats::kGranted);
  stalled.GoOn();
  const auto wait = [this] {
    while (exports_->control_work() > 0) std::this_thread::yield();
  };
  wait();
  EXPECT_TRUE(calls_->HasRestarted(client, 5));
  wait();
  EXPECT_EQ(Lock(Of(9, elsewhere), other), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, MsgProceduresReturnTheirResultInACall) {
  const auto asked = [&](NlmProcedure procedure, const auto& args) {
    EXPECT_EQ(Call(procedure, args, kOne).accept_status, oncrpc::AcceptStatus::kSuccess);
    EXPECT_TRUE(results_.empty());
    return results_told_.Next();
  };
  const auto stat_of = [](const ResultsTold::Result& told) {
    Nlm4Res result;
    EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(told.bytes), &result));
    EXPECT_EQ(result.cookie.text, "cookie");
    EXPECT_EQ(told.client, kOne);
    return result.stat;
  };
  auto told = asked(NlmProcedure::kLockMsg, LockArgs(Of(7, file_)));
  EXPECT_EQ(told.procedure, NlmProcedure::kLockRes);
  EXPECT_EQ(stat_of(told), Nlm4Stats::kGranted);
  EXPECT_EQ(stat_of(asked(NlmProcedure::kLockMsg, LockArgs(Of(8, "none")))), Nlm4Stats::kStaleFh);
  told = asked(NlmProcedure::kTestMsg, Nlm4Testargs{.cookie = {"cookie"}, .alock = Of(8, file_)});
  EXPECT_EQ(told.procedure, NlmProcedure::kTestRes);
  Nlm4Testres held;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(told.bytes), &held));
  EXPECT_EQ(held.stat, Nlm4Stats::kDenied);
  EXPECT_EQ(held.holder.svid, 7u);
  EXPECT_EQ(held.holder.oh.text, "process");
  told = asked(NlmProcedure::kCancelMsg, Nlm4Cancargs{.cookie = {"cookie"}, .alock = Of(8, file_)});
  EXPECT_EQ(told.procedure, NlmProcedure::kCancelRes);
  EXPECT_EQ(stat_of(told), Nlm4Stats::kDenied);
  told =
      asked(NlmProcedure::kUnlockMsg, Nlm4Unlockargs{.cookie = {"cookie"}, .alock = Of(7, file_)});
  EXPECT_EQ(told.procedure, NlmProcedure::kUnlockRes);
  EXPECT_EQ(stat_of(told), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo), Nlm4Stats::kGranted);
}

// It has asked nobody: what it is granted it refuses, and results it takes no note of.
TEST_F(LockCallsTest, UnexpectedGrantsAreDeniedAndResultsIgnored) {
  const Nlm4Testargs granted{.cookie = {"cookie"}, .exclusive = true, .alock = Of(7, file_)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kGranted, granted, kOne).stat, Nlm4Stats::kDenied);
  EXPECT_EQ(Call(NlmProcedure::kGrantedMsg, granted, kOne).accept_status,
            oncrpc::AcceptStatus::kSuccess);
  EXPECT_TRUE(results_.empty());
  const ResultsTold::Result told = results_told_.Next();
  EXPECT_EQ(told.client, kOne);
  EXPECT_EQ(told.procedure, NlmProcedure::kGrantedRes);
  Nlm4Res result;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(told.bytes), &result));
  EXPECT_EQ(result.cookie.text, "cookie");
  EXPECT_EQ(result.stat, Nlm4Stats::kDenied);
  for (const NlmProcedure procedure :
       {NlmProcedure::kTestRes, NlmProcedure::kLockRes, NlmProcedure::kCancelRes,
        NlmProcedure::kUnlockRes, NlmProcedure::kGrantedRes}) {
    EXPECT_EQ(Call(procedure, Nlm4Res{.cookie = {"cookie"}}, kOne).accept_status,
              oncrpc::AcceptStatus::kSuccess);
    EXPECT_TRUE(results_.empty());
  }
  EXPECT_EQ(Call(NlmProcedure::kGranted, oncrpc::Void(), kOne).accept_status,
            oncrpc::AcceptStatus::kGarbageArguments);
  EXPECT_EQ(Lock(Of(8, file_), kTwo), Nlm4Stats::kGranted);
}

// They come again, and have done nothing; none but the first waits for it.
TEST_F(LockCallsTest, CallsToAStalledExportAreDeniedAfterTheTimeout) {
  StalledStorage stalled(exports_->all()[0]->storage.get());
  storage_timeout_ = std::chrono::milliseconds(50);
  Start();
  for (uint32_t i = 0; i <= oncrpc::TcpService::kMaxUnanswered; ++i) {
    EXPECT_EQ(Lock(Of(i, file_, i, 1)), Nlm4Stats::kDeniedGracePeriod);
    EXPECT_EQ(exports_->control_work(), Storage::kThreads + 1);
  }
  EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kDeniedGracePeriod);
  EXPECT_EQ(Test(Of(7, file_), kTwo), Nlm4Stats::kDeniedGracePeriod);
  stalled.GoOn();
  // A thread that waits for its CPU seems to stall, too.
  Nlm4Stats found = Nlm4Stats::kDeniedGracePeriod;
  while (found == Nlm4Stats::kDeniedGracePeriod) found = Lock(Of(7, file_), kTwo);
  EXPECT_EQ(found, Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, CallsToFullStorageAreDenied) {
  Storage& storage = *exports_->all()[0]->storage;
  StalledStorage stalled(&storage);
  while (storage.RunControlCall([](Identity&) {})) {
  }
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDeniedGracePeriod);
  stalled.GoOn();
  while (storage.control_work() > 0) std::this_thread::yield();
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
}

// It is waited for until it answers; others are told meanwhile.
TEST_F(LockCallsTest, ASilentClientDoesNotDelayOtherGrants) {
  told_.BeSilent(kOne);
  EXPECT_EQ(Lock(Of(7, file_, 0, 1), kTwo), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(7, file_, 1, 1), kOne), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(8, file_, 0, 1), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Lock(Of(8, file_, 1, 1), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Unlock(Of(7, file_, 0, 1), kTwo), Nlm4Stats::kGranted);
  EXPECT_EQ(Unlock(Of(7, file_, 1, 1), kOne), Nlm4Stats::kGranted);
  EXPECT_EQ(told_.Next().owner.client.address, kTwo);
  told_.BeSilent(Gid());
  EXPECT_EQ(told_.Next().owner.client.address, kOne);
}

// What a client that is dead for good held, in every export; who waited for it is told.
TEST_F(LockCallsTest, DropReleasesTheLocksOfAHost) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(8, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(tables_->Held().size(), 2u);
  EXPECT_EQ(calls_->Drop(Gid::FromIpv4(0x0A000009)).value(), 0u);
  EXPECT_EQ(calls_->Drop(kOne).value(), 1u);
  EXPECT_EQ(told_.Next().owner.client.address, kTwo);
  const auto held = tables_->Held();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held.begin()->first.address, kTwo);
  // It lives after all.
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDenied);
  EXPECT_EQ(calls_->Drop(kTwo).value(), 1u);
  while (!tables_->Held().empty()) sched_yield();
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
}

class ClosedLockCallsTest : public LockCallsTest {
 protected:
  ClosedLockCallsTest() { network_ = Network{.address = kTwo, .prefix_length = 32}; }
};

TEST_F(ClosedLockCallsTest, ClientsOutsideEveryExportGetNoCall) {
  for (const std::string& handle : {std::string("none"), file_}) {
    for (const Gid& client : {kOne, kTwo}) {
      Call(NlmProcedure::kLockMsg, LockArgs(Of(7, handle)), client);
    }
    EXPECT_EQ(results_told_.Next().client, kTwo);
  }
}

TEST_F(LockCallsTest, ExcludedClientsCanReleaseWhatTheyHold) {
  const Nlm4Shareargs share{.cookie = {"cookie"},
                            .share = {.caller_name = {"guest"}, .fh = {file_}, .oh = {"o"}}};
  EXPECT_EQ(Lock(Of(7, file_, 0, 10)), Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, share, kOne).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_, 20, 10), kTwo), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(7, file_, 20, 10), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  AdmitOnly(kTwo);
  EXPECT_EQ(Lock(Of(7, file_, 40, 10)), Nlm4Stats::kFailed);
  EXPECT_EQ(Test(Of(7, file_, 40, 10), kOne), Nlm4Stats::kFailed);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kShare, share, kOne).stat, Nlm4Stats::kFailed);
  const Nlm4Cancargs cancel{
      .cookie = {"cookie"}, .block = true, .exclusive = true, .alock = Of(7, file_, 20, 10)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kCancel, cancel, kOne).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Ask<Nlm4Shareres>(NlmProcedure::kUnshare, share, kOne).stat, Nlm4Stats::kGranted);
  EXPECT_EQ(Unlock(Of(7, file_, 0, 10)), Nlm4Stats::kGranted);
  EXPECT_EQ(Unlock(Of(9, file_, 20, 10)), Nlm4Stats::kGranted) << "it is not its own";
  EXPECT_EQ(Lock(Of(8, file_, 0, 10), kTwo), Nlm4Stats::kGranted);
  const auto held = tables_->Held();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held.begin()->first.address, kTwo);
  EXPECT_EQ(held.begin()->second.ranges, 2u);
}

// It would not release the lock.
TEST_F(LockCallsTest, ExcludedClientsAreGrantedNothing) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(9, file_), kTwo, /*block=*/true), Nlm4Stats::kBlocked);
  EXPECT_EQ(Lock(Of(8, file_), kOne, /*block=*/true), Nlm4Stats::kBlocked);
  AdmitOnly(kOne);
  EXPECT_EQ(Unlock(Of(7, file_)), Nlm4Stats::kGranted);
  EXPECT_EQ(told_.Next().owner.client.address, kOne);
  EXPECT_EQ(tables_->Held().count({.address = kTwo, .name = "guest"}), 0u);
}

TEST_F(LockCallsTest, ConflictingSharesAreDenied) {
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

TEST_F(LockCallsTest, LocksInARemovedExportAreStale) {
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  exports_->Publish(*exports_->Prepare({}));
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kStaleFh);
}

TEST_F(LockCallsTest, InvalidLocksGetTheMatchingStatus) {
  EXPECT_EQ(Lock(Of(7, "no handle")), Nlm4Stats::kStaleFh);
  std::string forged = file_;
  forged.back() = static_cast<char>(forged.back() ^ 1);
  EXPECT_EQ(Lock(Of(7, forged)), Nlm4Stats::kStaleFh);
  EXPECT_EQ(Lock(Of(7, HandleOf(0, ""))), Nlm4Stats::kFailed);
  EXPECT_EQ(Lock(Of(7, HandleOf(1, "f"))), Nlm4Stats::kRofs);
  EXPECT_EQ(Lock(Of(7, HandleOf(2, "f"))), Nlm4Stats::kFailed);
  EXPECT_EQ(Lock(Of(7, HandleOf(2, "f")), *ParseAddress("192.0.2.7")), Nlm4Stats::kGranted);
  EXPECT_EQ(Lock(Of(7, file_, uint64_t{1} << 63)), Nlm4Stats::kFbig);
  const Nlm4Lockargs again{.cookie = {"cookie"}, .alock = Of(7, file_), .reclaim = true};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kNmLock, again, kOne).stat, Nlm4Stats::kDeniedGracePeriod);
  // A reader may lock as a reader.
  ASSERT_EQ(chmod(Path("rw/f").c_str(), 0444), 0);
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kFailed);
  const Nlm4Lockargs shared{.cookie = {"cookie"}, .alock = Of(7, file_)};
  EXPECT_EQ(Ask<Nlm4Res>(NlmProcedure::kLock, shared, kOne).stat, Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, TestNeedsReadOrWritePermission) {
  EXPECT_EQ(Test(Of(7, HandleOf(1, "f")), kTwo), Nlm4Stats::kGranted) << "a read-only export";
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  for (const mode_t mode : {0444, 0222}) {
    ASSERT_EQ(chmod(Path("rw/f").c_str(), mode), 0);
    EXPECT_EQ(Test(Of(7, file_), kTwo), Nlm4Stats::kDenied) << mode;
  }
  ASSERT_EQ(chmod(Path("rw/f").c_str(), 0), 0);
  EXPECT_EQ(Test(Of(7, file_), kTwo), Nlm4Stats::kFailed);
}

// Its client asks again, but not for a reclaim.
TEST_F(LockCallsTest, LocksOfALeasedFileAreTakenLater) {
  Reply begun;
  {
    const LeasedFile lease(Path("rw/f"));
    EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kDeniedGracePeriod);
    EXPECT_EQ(Test(Of(7, file_), kOne), Nlm4Stats::kDeniedGracePeriod);
  }
  EXPECT_EQ(Lock(Of(7, file_)), Nlm4Stats::kGranted);
  Restart(kTimeout);
  {
    const LeasedFile lease(Path("rw/f"));
    Nlm4Lockargs args = LockArgs(Of(7, file_));
    args.reclaim = true;
    begun = Send(NlmProcedure::kLock, args, kOne);
    EXPECT_EQ(begun.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  }
  EXPECT_EQ(End(std::move(begun)), Nlm4Stats::kGranted);
}

TEST_F(LockCallsTest, UnknownProceduresAndMalformedArgumentsAreRefused) {
  using oncrpc::AcceptStatus;
  EXPECT_EQ(Call(NlmProcedure::kNull, oncrpc::Void(), kOne).accept_status, AcceptStatus::kSuccess);
  EXPECT_EQ(Call(NlmProcedure::kLock, oncrpc::Void(), kOne).accept_status,
            AcceptStatus::kGarbageArguments);
  EXPECT_EQ(Call(NlmProcedure::kFreeAll, oncrpc::Void(), kOne).accept_status,
            AcceptStatus::kGarbageArguments);
  for (const auto procedure : {NlmProcedure{16}, NlmProcedure{24}}) {
    EXPECT_EQ(Call(procedure, oncrpc::Void(), kOne).accept_status,
              AcceptStatus::kProcedureUnavailable);
  }
}

}  // namespace
}  // namespace pollux::nfs
