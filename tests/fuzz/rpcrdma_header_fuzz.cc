// Any bytes as an RPC-over-RDMA message: the transport header, whose lists are written again byte
// for byte, and the RPC message behind it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/wire/header.h"
#include "rpcrdma/wire/private_data.h"

namespace {

using namespace pollux::rpcrdma;
using namespace pollux::oncrpc;

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckHeader(absl::Span<const uint8_t> message, const Header& header, size_t bytes) {
  Require(bytes <= message.size() && bytes == HeaderBytes(header));
  std::vector<uint8_t> again(bytes);
  Require(EmitHeader(header, absl::MakeSpan(again)) == bytes);
  Require(std::memcmp(again.data(), message.data(), bytes) == 0);
  again.pop_back();
  Require(EmitHeader(header, absl::MakeSpan(again)) == 0);
}

// A handler's view of arguments: items may come from chunks.
void CheckXdr(absl::Span<const uint8_t> bytes) {
  const size_t half = bytes.size() / 2;
  const ReducedItem items[] = {{bytes, half}, {bytes.last(half), half + 8}};
  for (size_t chunks = 0; chunks < 3; ++chunks) {
    XdrReader in(bytes, absl::MakeSpan(items).first(chunks));
    in.Uint32();
    in.Bool();
    Require(in.String(64).size() <= 64);
    Require(in.EligibleOpaque(1000).size() <= 1000);
    Require(in.EligibleOpaque(10).size() <= 10);
    in.Uint64();
    if (in.AtEnd()) Require(in.ok());
  }
}

void CheckRpc(absl::Span<const uint8_t> payload) {
  CallHeader call;
  if (const size_t bytes = ParseCall(payload, &call); bytes > 0) {
    Require(bytes <= payload.size());
    if (call.rpc_version == kRpcVersion) Require(bytes == CallHeaderBytes(call));
    CheckXdr(payload.subspan(bytes));
  }
  ReplyHeader reply;
  if (const size_t bytes = ParseReply(payload, &reply); bytes > 0) {
    Require(bytes <= payload.size());
    CheckXdr(payload.subspan(bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const uint8_t> message(data, size);
  static Header header;
  size_t bytes = 0;
  const HeaderStatus status = ParseHeader(message, &header, &bytes);
  if (status == HeaderStatus::kOk) {
    CheckHeader(message, header, bytes);
    CheckRpc(message.subspan(bytes));
  } else {
    Require(bytes == 0 && header.chunks.empty());
  }
  CheckRpc(message);
  if (const auto found = FindPrivateData(message)) {
    Require(found->send_bytes >= kMinInlineBytes && found->send_bytes <= kMaxInlineBytes);
    Require(found->receive_bytes >= kMinInlineBytes && found->receive_bytes <= kMaxInlineBytes);
  }
  return 0;
}
