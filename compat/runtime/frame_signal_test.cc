#include "compat/runtime/frame_signal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace pollux::compat {
namespace {

std::atomic<int> raised = 0;

void CountRaised(int) { ++raised; }

// As net_tap opens one.
int OpenTap(int number) {
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  std::strcpy(request.ifr_name, "plxsignal");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) return -1;
  struct sigaction action {};
  action.sa_handler = CountRaised;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
  fcntl(fd, F_SETSIG, number);
  fcntl(fd, F_SETOWN, getpid());
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
  return fd;
}

TEST(FrameSignalTest, WithoutATapNoSignalIsRaised) {
  FrameSignal::TakeOver().Raise();
  EXPECT_EQ(raised, 0);
}

TEST(FrameSignalTest, FramesRaiseNoSignalAndRaiseCallsTheDriver) {
  const int fd = OpenTap(SIGRTMIN + 3);
  if (fd < 0) GTEST_SKIP() << "needs the right to make a TAP";
  const FrameSignal signal = FrameSignal::TakeOver();
  // Neighbour discovery sends frames of its own as soon as the interface is up.
  ASSERT_EQ(std::system("ip link set plxsignal up"), 0);
  pollfd readable{fd, POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 60'000), 1);
  EXPECT_EQ(raised, 0);
  signal.Raise();
  EXPECT_EQ(raised, 1);
  close(fd);
}

}  // namespace
}  // namespace pollux::compat
