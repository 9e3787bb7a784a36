// Upper layers that write the RPC headers themselves: calls with a verifier, replies with one,
// denials, and programs of which no procedure is known by number.
#include "rpcrdma/mirror_for_test.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kOwnProgram = 0x20000077;
constexpr uint32_t kDenied = 13;  // the procedure that is denied
constexpr uint32_t kAuthStatus = 13;

oncrpc::ProgramBinding OwnBinding() {
  oncrpc::ProgramBinding binding{.program = kOwnProgram, .version = 1, .procedures = {}};
  binding.others =
      oncrpc::ProcedureBinding{.max_argument_bytes = kMaxEcho, .max_result_bytes = kMaxEcho};
  return binding;
}

class OwnHeaderTest : public MirrorTest {
 protected:
  // Answers with the call's arguments and its verifier.
  void Start() {
    StartSimulation();
    StartServer();
    Program program{.binding = OwnBinding(), .procedures = {}, .others = nullptr};
    program.others = [this](const CallView& call, ReplyHandle reply) {
      ++calls;
      client_address = call.client_address;
      client_port = call.client_port;
      oncrpc::ReplyHeader header{.verifier = call.header.verifier};
      if (call.header.procedure == kDenied) {
        header = {.denied = true,
                  .reject_status = oncrpc::RejectStatus::kAuthError,
                  .auth_status = kAuthStatus};
      }
      reply.Send(header, header.denied ? absl::Span<const uint8_t>() : call.arguments, {});
    };
    ASSERT_TRUE(server->server->RegisterProgram(std::move(program)).ok());
    StartClient({}, OwnBinding());
    ConnectClient();
  }
  oncrpc::CallHeader Header(uint32_t xid, uint32_t procedure) const {
    return {.xid = xid,
            .program = kOwnProgram,
            .version = 1,
            .procedure = procedure,
            .credential = {oncrpc::AuthFlavor::kGss, credential},
            .verifier = {oncrpc::AuthFlavor::kGss, verifier}};
  }

  // RFC 2203 section 5: version, control procedure, sequence number, service none, no handle.
  const std::vector<uint8_t> credential = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
                                           0, 9, 0, 0, 0, 1, 0, 0, 0, 0};
  std::vector<uint8_t> verifier = Pattern(400);
  int calls = 0;
  Gid client_address;
  uint16_t client_port = 0;
};

TEST_F(OwnHeaderTest, CallAndReplyHeadersAreTransferred) {
  Start();
  for (const size_t bytes : {0u, 2000u, kMaxEcho}) {
    const oncrpc::CallHeader header = Header(0x1234, 99);
    const std::vector<uint8_t> arguments = Pattern(bytes);
    std::vector<uint8_t> buffer(oncrpc::kReplyHeaderBytes + kMaxEcho + verifier.size());
    const absl::Status status =
        Run({.procedure = 99,
             .header = &header,
             .arguments = arguments,
             .reply_buffer = absl::MakeSpan(buffer),
             .max_result_bytes = static_cast<uint32_t>(kMaxEcho + verifier.size())},
            [&](const oncrpc::Reply& reply) {
              EXPECT_EQ(reply.header.xid, 0x1234u);
              EXPECT_EQ(reply.header.verifier.flavor, oncrpc::AuthFlavor::kGss);
              EXPECT_EQ(reply.header.verifier.body, absl::MakeConstSpan(verifier));
              EXPECT_EQ(reply.results, absl::MakeConstSpan(arguments));
            });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(client_address, nodes[0]->gid());
  EXPECT_NE(client_port, 0);
}

TEST_F(OwnHeaderTest, ADenialIsAReply) {
  Start();
  const oncrpc::CallHeader header = Header(7, kDenied);
  std::vector<uint8_t> buffer(oncrpc::kReplyHeaderBytes + kMaxEcho);
  std::optional<oncrpc::ReplyHeader> denied;
  ASSERT_TRUE(
      client
          ->Call({.procedure = kDenied, .header = &header, .reply_buffer = absl::MakeSpan(buffer)},
                 [&denied](const absl::Status& status, const oncrpc::Reply* reply) {
                   EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
                   ASSERT_NE(reply, nullptr);
                   denied = reply->header;
                 })
          .ok());
  ASSERT_TRUE(RunUntil([&] { return denied.has_value(); }));
  EXPECT_TRUE(denied->denied);
  EXPECT_EQ(denied->auth_status, kAuthStatus);
}

TEST_F(OwnHeaderTest, InvalidHeadersOfTheCallerAreRefused) {
  Start();
  std::vector<uint8_t> buffer(oncrpc::kReplyHeaderBytes + kMaxEcho);
  const auto call = [&](const oncrpc::CallHeader& header) {
    return client
        ->Call({.procedure = 99, .header = &header, .reply_buffer = absl::MakeSpan(buffer)},
               [](const absl::Status&, const oncrpc::Reply*) {})
        .code();
  };
  const oncrpc::CallHeader header = Header(8, 99), other = Header(8, 98);
  EXPECT_EQ(call(other), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(call(header), absl::StatusCode::kOk);
  // Outstanding.
  EXPECT_EQ(call(header), absl::StatusCode::kAlreadyExists);
  verifier = Pattern(401);
  EXPECT_EQ(call(Header(9, 99)), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(RunUntil([&] { return calls == 1; }));
}

// A call that comes again by the same bytes is answered with the reply that it had, verifier and
// all; one that only says so is another.
TEST_F(OwnHeaderTest, TheReplyCacheComparesTheWholeHeader) {
  Start();
  const auto run = [this](const oncrpc::CallHeader& header) {
    std::vector<uint8_t> buffer(oncrpc::kReplyHeaderBytes + kMaxEcho);
    return Run({.procedure = 99, .header = &header, .reply_buffer = absl::MakeSpan(buffer)},
               [this](const oncrpc::Reply& reply) {
                 EXPECT_EQ(reply.header.verifier.body, absl::MakeConstSpan(verifier));
               });
  };
  EXPECT_TRUE(run(Header(5, 99)).ok());
  EXPECT_TRUE(run(Header(5, 99)).ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(server->server->counters().duplicates_answered, 1u);
  verifier[17] ^= 1;
  EXPECT_TRUE(run(Header(5, 99)).ok());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace pollux::rpcrdma
