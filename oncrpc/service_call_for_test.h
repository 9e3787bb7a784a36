// Calls to RPC programs without a connection.
#ifndef POLLUX_ONCRPC_SERVICE_CALL_FOR_TEST_H_
#define POLLUX_ONCRPC_SERVICE_CALL_FOR_TEST_H_

#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "oncrpc/codec.h"
#include "oncrpc/service_call.h"

namespace pollux::oncrpc {

// Passes a call to `serve`. Returns a future for the reply, which is empty if none was sent.
template <class Args>
std::future<std::vector<uint8_t>> AskService(const ServiceProgram& program,
                                             const CallHeader& header, const Args& args,
                                             const Gid& client,
                                             absl::FunctionRef<void(ServiceCall)> serve,
                                             bool connected = true, const Gid& server = {}) {
  std::vector<uint8_t> message(1 << 16);
  const size_t at = EmitCall(header, absl::MakeSpan(message));
  message.resize(at + Encode(args, absl::MakeSpan(message).subspan(at)).stream.size());
  auto answered = std::make_shared<std::promise<std::vector<uint8_t>>>();
  auto future = answered->get_future();
  ReplySender reply(
      [answered](std::vector<uint8_t> bytes) { answered->set_value(std::move(bytes)); });
  auto call = ServiceCall::Take(program, std::move(message),
                                {.client = client, .server = server, .connected = connected},
                                std::move(reply));
  if (call.has_value()) serve(*std::move(call));
  return future;
}

}  // namespace pollux::oncrpc

#endif  // POLLUX_ONCRPC_SERVICE_CALL_FOR_TEST_H_
