#include "rpcrdma/wire/plain_message.h"

namespace pollux::rpcrdma {

PlainCall::PlainCall(const oncrpc::CallHeader& call) {
  const size_t transport_bytes = EmitHeader(Header{}, absl::MakeSpan(headers_));
  header_bytes_ =
      transport_bytes +
      oncrpc::EmitCall(
          {.program = call.program, .version = call.version, .credential = call.credential},
          absl::MakeSpan(headers_).subspan(transport_bytes));
}

}  // namespace pollux::rpcrdma
