#include "compat/process/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string_view>
#include <vector>

namespace pollux::compat {
namespace {

bool ClosesOnExec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(NewDescriptors, OnlyNewDescriptorsAreClosedOnExec) {
  const int old = open("/dev/null", O_RDONLY);
  const NewDescriptors descriptors;
  const int added = open("/dev/null", O_RDONLY);
  ASSERT_TRUE(old >= 0 && added >= 0);
  descriptors.CloseOnExec();
  EXPECT_FALSE(ClosesOnExec(old));
  EXPECT_TRUE(ClosesOnExec(added));
  close(old);
  close(added);
}

int BindUdp(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(*port);
  socklen_t bytes = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    close(fd);
    return -1;
  }
  *port = ntohs(address.sin_port);
  return fd;
}

TEST(NewDescriptors, DescriptorsOfThePortAreReleased) {
  const NewDescriptors descriptors;
  uint16_t port = 0, other_port = 0;
  const int of_port = BindUdp(&port);
  const int of_another = BindUdp(&other_port);
  const int file = open("/dev/null", O_RDONLY);
  ASSERT_TRUE(of_port >= 0 && of_another >= 0 && file >= 0);
  const std::vector<HeldDescriptor> held = descriptors.OfPort(port);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].fd, of_port);
  EXPECT_EQ(BindUdp(&port), -1);
  LetGo(held);
  const int anew = BindUdp(&port);
  EXPECT_GE(anew, 0);
  EXPECT_TRUE(ClosesOnExec(of_port)) << "a number that is still taken";
  for (const int fd : {of_port, of_another, file, anew}) EXPECT_EQ(close(fd), 0);
}

TEST(Descriptors, SocketsAreFoundByThePrefixOfTheirNames) {
  const int named = socket(AF_UNIX, SOCK_DGRAM, 0), unnamed = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "\0descriptors_test/1"};
  ASSERT_EQ(bind(named, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::vector<HeldDescriptor> held =
      SocketsUnder(std::string_view("\0descriptors_test/", 18));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].fd, named);
  EXPECT_TRUE(SocketsUnder(std::string_view("\0descriptors_test/2", 19)).empty());
  for (const int fd : {named, unnamed}) EXPECT_EQ(close(fd), 0);
}

TEST(NewDescriptors, SocketsThatMayBeBoundToThePortAreReleasedToo) {
  const NewDescriptors descriptors;
  const int on_interface = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
  ASSERT_EQ(setsockopt(on_interface, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
  const std::vector<HeldDescriptor> held = descriptors.OfPort(4791);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].fd, on_interface);
  for (const int fd : {on_interface, other}) EXPECT_EQ(close(fd), 0);
}

TEST(NewDescriptors, AReusedDescriptorNumberIsNotClosed) {
  const NewDescriptors descriptors;
  uint16_t port = 0;
  const int of_port = BindUdp(&port);
  ASSERT_GE(of_port, 0);
  const std::vector<HeldDescriptor> held = descriptors.OfPort(port);
  ASSERT_EQ(held.size(), 1u);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(dup2(pipe_ends[1], of_port), of_port);
  LetGo(held);
  EXPECT_EQ(write(of_port, "x", 1), 1);
  char read_back = 0;
  EXPECT_EQ(read(pipe_ends[0], &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
  for (const int fd : {of_port, pipe_ends[0], pipe_ends[1]}) EXPECT_EQ(close(fd), 0);
}

}  // namespace
}  // namespace pollux::compat
