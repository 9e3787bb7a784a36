// Calls of control programs without a connection.
#ifndef POLLUX_NFS_SERVER_CONTROL_FOR_TEST_H_
#define POLLUX_NFS_SERVER_CONTROL_FOR_TEST_H_

#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "nfs/server/control_call.h"
#include "oncrpc/codec.h"

namespace pollux::nfs {

// The message that answers, later or now; empty when there is none.
template <class Args>
std::future<std::vector<uint8_t>> AskControl(const ControlProgram& program,
                                             const oncrpc::CallHeader& header, const Args& args,
                                             const Gid& client,
                                             absl::FunctionRef<void(ControlCall)> serve,
                                             bool connected = true) {
  std::vector<uint8_t> message(1 << 16);
  const size_t at = oncrpc::EmitCall(header, absl::MakeSpan(message));
  message.resize(at + oncrpc::Encode(args, absl::MakeSpan(message).subspan(at)).stream.size());
  auto answered = std::make_shared<std::promise<std::vector<uint8_t>>>();
  auto future = answered->get_future();
  RecordServer::Reply reply(
      [answered](std::vector<uint8_t> bytes) { answered->set_value(std::move(bytes)); });
  auto call =
      ControlCall::Take(program, std::move(message),
                        {.client = client, .server = {}, .connected = connected}, std::move(reply));
  if (call.has_value()) serve(*std::move(call));
  return future;
}

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_CONTROL_FOR_TEST_H_
