#include "oncrpc/portmap_calls.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "oncrpc/service_call_for_test.h"
#include "stack/base/address.h"

namespace pollux::oncrpc {
namespace {

class PortmapCallsTest : public testing::Test {
 protected:
  template <class Args, class Res>
  AcceptStatus Ask(uint32_t version, PortmapProcedure procedure, const Args& args, Res* results,
                   bool connected = true) {
    const CallHeader header{.program = kPortmapProgram,
                            .version = version,
                            .procedure = static_cast<uint32_t>(procedure)};
    message_ = AskService(
                   PortmapCalls::kProgram, header, args, {},
                   [this](ServiceCall call) { calls_.Serve(std::move(call)); }, connected)
                   .get();
    ReplyHeader reply;
    const size_t begin = ParseReply(message_, &reply);
    const auto rest = absl::MakeConstSpan(message_).subspan(begin);
    if (reply.accept_status == AcceptStatus::kSuccess) {
      EXPECT_TRUE(Decode(XdrReader(rest), results));
    }
    return reply.accept_status;
  }
  uint32_t Port(uint32_t program, uint32_t version, uint32_t protocol = IPPROTO_TCP) {
    GetportRes result;
    Ask(kPortmapV2, PortmapProcedure::kGetport, Mapping{program, version, protocol, 0}, &result);
    return result.port;
  }
  std::string Address(uint32_t program, uint32_t version, const char* netid) {
    GetaddrRes result;
    Ask(kRpcbindV4, PortmapProcedure::kGetport, Rpcb{program, version, {netid}, {}, {}}, &result);
    return std::string(result.address.text);
  }

  using Transport = PortmapCalls::Transport;
  PortmapCalls calls_{{{100021, 4, Transport::kTcp, 4045},
                       {100005, 3, Transport::kUdp, 20048},
                       {100003, 3, Transport::kRdma, 20049}}};
  std::vector<uint8_t> message_;
};

TEST_F(PortmapCallsTest, GetportAndGetaddrReturnRegisteredAddresses) {
  EXPECT_EQ(Port(100021, 4), 4045u);
  EXPECT_EQ(Port(100021, 3), 0u);
  EXPECT_EQ(Port(100003, 3), 0u);
  EXPECT_EQ(Port(100021, 4, IPPROTO_UDP), 0u);
  EXPECT_EQ(Port(100005, 3), 0u);
  EXPECT_EQ(Port(100005, 3, IPPROTO_UDP), 20048u);
  EXPECT_EQ(Address(100005, 3, "udp6"), "::.78.80");
  EXPECT_EQ(Address(100005, 3, "tcp6"), "");
  EXPECT_EQ(Address(100021, 4, "tcp"), "::.15.205");
  EXPECT_EQ(Address(100003, 3, "rdma6"), "::.78.81");
  EXPECT_EQ(Address(100003, 3, "tcp"), "");
}

TEST_F(PortmapCallsTest, DumpListsEveryService) {
  Pmaplist ports;
  Ask(kPortmapV2, PortmapProcedure::kDump, Void(), &ports);
  ASSERT_EQ(ports.items.size(), 2u);
  EXPECT_EQ(ports.items[0].port, 4045u);
  EXPECT_EQ(ports.items[0].prot, uint32_t{IPPROTO_TCP});
  EXPECT_EQ(ports.items[1].prot, uint32_t{IPPROTO_UDP});
  for (const uint32_t version : {kRpcbindV3, kRpcbindV4}) {
    Rpcblist services;
    Ask(version, PortmapProcedure::kDump, Void(), &services);
    ASSERT_EQ(services.items.size(), 6u);
    EXPECT_EQ(services.items[0].r_netid.text, "tcp");
    EXPECT_EQ(services.items[0].r_addr.text, "0.0.0.0.15.205");
    EXPECT_EQ(services.items[5].r_netid.text, "rdma6");
    EXPECT_EQ(services.items[5].r_addr.text, "::.78.81");
  }
}

TEST_F(PortmapCallsTest, ADumpTooLongForADatagramIsASystemError) {
  Pmaplist ports;
  EXPECT_EQ(Ask(kPortmapV2, PortmapProcedure::kDump, Void(), &ports,
                /*connected=*/false),
            AcceptStatus::kSuccess);
  EXPECT_EQ(ports.items.size(), 2u);
  Rpcblist services;
  EXPECT_EQ(Ask(kRpcbindV4, PortmapProcedure::kDump, Void(), &services,
                /*connected=*/false),
            AcceptStatus::kSystemError);
  EXPECT_LT(message_.size(), 100u);
}

TEST_F(PortmapCallsTest, RefusesRegistrations) {
  SetRes result{.done = true};
  Ask(kPortmapV2, PortmapProcedure::kSet, Mapping{100005, 3, IPPROTO_TCP, 1}, &result);
  EXPECT_FALSE(result.done);
  EXPECT_EQ(Port(100005, 3), 0u);
  Void none;
  EXPECT_EQ(Ask(kRpcbindV4, PortmapProcedure{9}, Void(), &none),
            AcceptStatus::kProcedureUnavailable);
  EXPECT_EQ(Ask(kPortmapV2, PortmapProcedure::kGetport, Void(), &none),
            AcceptStatus::kGarbageArguments);
}

}  // namespace
}  // namespace pollux::oncrpc
