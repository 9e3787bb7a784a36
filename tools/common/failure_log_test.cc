#include "tools/common/failure_log.h"

#include <gtest/gtest.h>

namespace pollux::tools {
namespace {

TEST(FailureLogTest, AFailureIsOneLineWithoutEvents) {
  const SocketAddress local{.address = Gid::FromIpv4(0xC0000202), .port = 4711};
  const SocketAddress peer{.address = Gid::FromIpv4(0xC0000201), .port = 20049};
  EXPECT_EQ(FailureText(local, peer, "no answer", ""),
            "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: no answer\n");
  EXPECT_EQ(FailureText(local, peer, "no answer", "  line\n"),
            "connection 192.0.2.2:4711 to 192.0.2.1:20049 failed: no answer; its last events:\n"
            "  line\n");
}

}  // namespace
}  // namespace pollux::tools
