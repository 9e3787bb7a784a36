#include "rpcrdma/wire/plain_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {
namespace {

constexpr size_t kOutputBytes = 2048;
constexpr uint8_t kUntouched = 0xEE;
const std::vector<size_t> kBodySizes = {0, 1, 3, 4, 5, 64, 1021};

std::vector<uint8_t> Pattern(size_t bytes) {
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<uint8_t>(i * 7 + 1);
  return pattern;
}

// The same by the codecs of the headers.
template <class EmitRpc>
std::vector<uint8_t> Reference(uint32_t xid, uint32_t credits, EmitRpc emit_rpc,
                               absl::Span<const uint8_t> body) {
  std::vector<uint8_t> out(kOutputBytes);
  Header header;
  header.xid = xid;
  header.credits = credits;
  size_t bytes = EmitHeader(header, absl::MakeSpan(out));
  bytes += emit_rpc(absl::MakeSpan(out).subspan(bytes));
  oncrpc::XdrWriter writer(absl::MakeSpan(out).subspan(bytes));
  writer.FixedOpaque(body);
  out.resize(bytes + writer.size());
  return out;
}

// What `emit` writes into as much room as it needs, checked to need all of it and to stay in it.
template <class Emit>
std::vector<uint8_t> Exactly(size_t bytes, Emit emit) {
  std::vector<uint8_t> out(bytes + 8, kUntouched);
  EXPECT_EQ(emit(absl::MakeSpan(out).first(bytes - 1)), 0u);
  EXPECT_EQ(emit(absl::MakeSpan(out).first(0)), 0u);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](uint8_t b) { return b == kUntouched; }));
  EXPECT_EQ(emit(absl::MakeSpan(out).first(bytes)), bytes);
  EXPECT_TRUE(std::all_of(out.begin() + static_cast<ptrdiff_t>(bytes), out.end(),
                          [](uint8_t b) { return b == kUntouched; }));
  out.resize(bytes);
  return out;
}

TEST(PlainCall, MatchesTheOutputOfTheCodecs) {
  for (const size_t credential_bytes : {0u, 1u, 4u, 21u, oncrpc::kMaxAuthBytes}) {
    const std::vector<uint8_t> body = Pattern(credential_bytes);
    const oncrpc::OpaqueAuth credential{.flavor = oncrpc::AuthFlavor::kSys, .body = body};
    const PlainCall plain({.program = 0x20504C58, .version = 3, .credential = credential});
    for (const size_t argument_bytes : kBodySizes) {
      const std::vector<uint8_t> arguments = Pattern(argument_bytes);
      const oncrpc::CallHeader call{.xid = 0x89ABCDEF,
                                    .program = 0x20504C58,
                                    .version = 3,
                                    .procedure = 21,
                                    .credential = credential};
      const std::vector<uint8_t> reference = Reference(
          call.xid, 77, [&](absl::Span<uint8_t> out) { return oncrpc::EmitCall(call, out); },
          arguments);
      EXPECT_EQ(Exactly(reference.size(),
                        [&](absl::Span<uint8_t> out) {
                          return plain.Emit(call.xid, call.procedure, 77, arguments, out);
                        }),
                reference);
    }
  }
}

TEST(PlainReply, MatchesTheOutputOfTheCodecs) {
  for (const size_t result_bytes : kBodySizes) {
    const std::vector<uint8_t> results = Pattern(result_bytes);
    const oncrpc::ReplyHeader reply{.xid = 0x01020304};
    const std::vector<uint8_t> reference = Reference(
        reply.xid, 128, [&](absl::Span<uint8_t> out) { return oncrpc::EmitReply(reply, out); },
        results);
    EXPECT_EQ(Exactly(reference.size(),
                      [&](absl::Span<uint8_t> out) {
                        return EmitPlainReply(reply.xid, 128, results, out);
                      }),
              reference);
  }
}

}  // namespace
}  // namespace pollux::rpcrdma
