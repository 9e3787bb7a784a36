#include "tools/tirpc/pollux_rpc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace {

void Dispatch(svc_req* /*request*/, SVCXPRT* transport) { svcerr_noproc(transport); }

TEST(PolluxRpcTest, AServiceThatCannotBeRegisteredIsNotServed) {
  constexpr rpcprog_t kProgram = 0x20000078;
  std::string directory = std::filesystem::temp_directory_path() / "plxXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string port = absl::StrCat("--port net_memif0,role=server,socket=", directory,
                                        "/s --address 192.0.2.1/24 --idle sleep");
  const std::string registered = port + " --rpcbind";
  if (SVCXPRT* const transport = svc_pollux_create(Dispatch, kProgram, 1, registered.c_str())) {
    svc_unreg(kProgram, 1);
    svc_destroy(transport);
    GTEST_SKIP() << "this host has an rpcbind";
  }
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
