#include "oncrpc/bound_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

namespace pollux::oncrpc {
namespace {

using ::testing::HasSubstr;

TEST(BoundSocketTest, APortCanBeBoundOncePerProtocol) {
  const auto tcp = BindEverywhere(SOCK_STREAM, 0);
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  ASSERT_EQ(listen(tcp->get(), 1), 0);
  const uint16_t port = PortOf(*tcp);
  ASSERT_NE(port, 0);
  const absl::Status again = BindEverywhere(SOCK_STREAM, port).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("TCP"));
  const auto udp = BindEverywhere(SOCK_DGRAM, port);
  ASSERT_TRUE(udp.ok()) << udp.status();
  EXPECT_EQ(PortOf(*udp), port);
  EXPECT_THAT(std::string(BindEverywhere(SOCK_DGRAM, port).status().message()), HasSubstr("UDP"));
}

}  // namespace
}  // namespace pollux::oncrpc
