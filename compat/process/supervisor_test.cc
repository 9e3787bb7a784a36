#include "compat/process/supervisor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "compat/process/dreq_records.h"
#include "stack/base/fd.h"
#include "stack/io/own_network_for_test.h"

namespace pollux::compat {
namespace {

constexpr char kNear[] = "plxnear", kFar[] = "plxfar";
constexpr int kTimeoutMs = 60'000;

std::atomic<int> children_ended{0};

// One whose EtherType nobody else uses.
std::array<uint8_t, 60> Frame(uint8_t mark) {
  std::array<uint8_t, 60> frame{};
  frame.fill(mark);
  frame[6] = 0x02;  // not to the interface's own address
  frame[12] = 0x88;
  frame[13] = 0xB5;
  return frame;
}

std::string Program() { return std::filesystem::absolute("compat/pollux_supervisor"); }

class SupervisorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!io::EnterOwnNetwork()) GTEST_SKIP() << "needs the right to make network interfaces";
    static const bool made =
        std::system(
            "ip link add plxnear type veth peer name plxfar && ip link set plxnear up && "
            "ip link set plxfar up && "
            "until ip link show plxnear | grep -q 'state UP'; do sleep 0.05; done") == 0;
    if (!made) GTEST_SKIP() << "needs a kernel that can make a veth pair";
    far_ = Fd(socket(AF_PACKET, SOCK_RAW, 0));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(0x88B5);
    address.sll_ifindex = static_cast<int>(if_nametoindex(kFar));
    ASSERT_EQ(bind(far_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  // A process with a supervisor and two frames, one of which it has forgotten; `then` does not
  // return. Returns when `then` is about to begin.
  pid_t StartProcess(const std::function<void(const HeldDescriptor&)>& then) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t process = fork();
    if (process == 0) {
      setpgid(0, 0);
      signal(SIGCHLD, [](int) { ++children_ended; });
      const auto records = DreqRecords::Create();
      const auto held = StartSupervisor(Program(), (*records)->fd(), if_nametoindex(kNear));
      // It is nobody's child here.
      const bool unseen = waitpid(-1, nullptr, 0) < 0 && errno == ECHILD && children_ended == 0;
      if (!held.ok() || !unseen) _exit(1);
      (*records)->Keep(Frame(1));
      (*records)->Forget((*records)->Keep(Frame(2)));
      if (write(ready[1], "", 1) != 1) _exit(2);
      then(*held);
      _exit(3);
    }
    close(ready[1]);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the process has ended too early";
    close(ready[0]);
    return process;
  }
  void ExpectFrames() const {
    for (int i = 0; i < kDreqRounds; ++i) {
      pollfd readable{far_.get(), POLLIN, 0};
      ASSERT_EQ(poll(&readable, 1, kTimeoutMs), 1) << "frames: " << i;
      std::array<uint8_t, 2048> frame{};
      ASSERT_EQ(recv(far_.get(), frame.data(), frame.size(), 0), 60);
      EXPECT_EQ(frame[20], 1);
    }
  }
  static void Forever(const HeldDescriptor&) {
    while (true) pause();
  }

 private:
  Fd far_;
};

TEST_F(SupervisorTest, SendsDreqsWhenTheProcessGroupIsKilled) {
  const pid_t process = StartProcess(Forever);
  ASSERT_EQ(kill(-process, SIGKILL), 0);
  ExpectFrames();
  waitpid(process, nullptr, 0);
}

TEST_F(SupervisorTest, SendsDreqsWhenTheProcessCallsExec) {
  const pid_t process = StartProcess([](const HeldDescriptor&) {
    execl("/bin/sleep", "sleep", "600", static_cast<char*>(nullptr));
  });
  ExpectFrames();
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

TEST_F(SupervisorTest, SendsDreqsWhileAForkedChildLives) {
  const pid_t process = StartProcess([](const HeldDescriptor& held) {
    if (fork() == 0) LetGo({&held, 1});
    Forever(held);
  });
  ASSERT_EQ(kill(process, SIGKILL), 0);
  ExpectFrames();
  kill(-process, SIGKILL);
  waitpid(process, nullptr, 0);
}

// Orphans become its children, and it may wait for all of them.
TEST_F(SupervisorTest, IsNotStartedByPidOneOrASubreaper) {
  const auto is_not_started = [] {
    const auto records = DreqRecords::Create();
    const auto held = StartSupervisor(Program(), (*records)->fd(), if_nametoindex(kNear));
    const bool childless = waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
    return !held.ok() && childless;
  };
  const pid_t subreaper = fork();
  if (subreaper == 0) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    _exit(is_not_started() ? 0 : 1);
  }
  const pid_t parent_of_one = fork();
  if (parent_of_one == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(0);  // not permitted here
    const pid_t one = fork();
    if (one == 0) _exit(is_not_started() ? 0 : 1);
    int status = -1;
    waitpid(one, &status, 0);
    _exit(status == 0 ? 0 : 1);
  }
  for (const pid_t process : {subreaper, parent_of_one}) {
    int status = -1;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(SupervisorTest, TheErrorNamesASupervisorThatCannotBeStarted) {
  const auto records = DreqRecords::Create();
  const auto held = StartSupervisor("/no/such/program", (*records)->fd(), if_nametoindex(kNear));
  ASSERT_EQ(held.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(held.status().message().find("/no/such/program: No such file"), absl::string_view::npos)
      << held.status();
}

}  // namespace
}  // namespace pollux::compat
