#include "tools/tirpc/pollux_rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "oncrpc/rpcbind.h"

namespace {

void Dispatch(svc_req* /*request*/, SVCXPRT* transport) { svcerr_noproc(transport); }

// Gives this process a /run of its own, without the socket of this host's rpcbind.
bool HideRpcbind() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0;
}

TEST(PolluxRpcTest, AServiceThatCannotBeRegisteredIsNotServed) {
  constexpr rpcprog_t kProgram = 0x20000078;
  if (access(pollux::oncrpc::RpcBind::kSocket, F_OK) == 0 && !HideRpcbind()) {
    GTEST_SKIP() << "this host has an rpcbind";
  }
  std::string directory = std::filesystem::temp_directory_path() / "plxXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string port = absl::StrCat("--port net_memif0,role=server,socket=", directory,
                                        "/s --address 192.0.2.1/24 --idle sleep");
  const std::string registered = port + " --rpcbind";
  ASSERT_EQ(svc_pollux_create(Dispatch, kProgram, 1, registered.c_str()), nullptr);
  const std::string error = pollux_rpc_error();
  EXPECT_THAT(error, testing::HasSubstr("rpcbind"));
  // Neither a listener nor a program is left.
  EXPECT_TRUE(std::all_of(svc_pollfd, svc_pollfd + svc_max_pollfd,
                          [](const pollfd& polled) { return polled.fd < 0; }));
  EXPECT_EQ(svc_pollux_create(Dispatch, kProgram, 1, registered.c_str()), nullptr);
  EXPECT_EQ(pollux_rpc_error(), error);
  SVCXPRT* const transport = svc_pollux_create(Dispatch, kProgram, 1, port.c_str());
  ASSERT_NE(transport, nullptr) << pollux_rpc_error();
  // A service that has a program stays.
  EXPECT_EQ(svc_pollux_create(Dispatch, kProgram + 1, 1, registered.c_str()), nullptr);
  EXPECT_EQ(pollux_rpc_error(), error);
  EXPECT_EQ(svc_pollux_create(Dispatch, kProgram + 1, 1, port.c_str()), transport);
  for (const rpcprog_t program : {kProgram, kProgram + 1}) svc_unreg(program, 1);
  svc_destroy(transport);
  std::filesystem::remove_all(directory);
}

}  // namespace
