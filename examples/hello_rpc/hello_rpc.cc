// An RPC program of one procedure, over RPC-over-RDMA: the server reverses the bytes that a client
// sends. Small data is sent within the message; larger data is transferred by RDMA READ and RDMA
// WRITE, as the program's binding allows. Both ends are in this process, on two ports that are
// joined by rings.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cm/manager.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "stack/base/address.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"

namespace {

namespace cm = pollux::cm;
namespace engine = pollux::engine;
namespace oncrpc = pollux::oncrpc;
namespace rpcrdma = pollux::rpcrdma;

constexpr uint16_t kPort = 20049;
constexpr uint32_t kProgram = 0x20000001;
constexpr uint32_t kReverse = 1;  // opaque<> -> opaque<>
constexpr uint32_t kMaxBytes = 1 << 20;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "hello_rpc: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <class T>
T Check(absl::StatusOr<T> result) {
  Check(result.status());
  return *std::move(result);
}

// RFC 8166 calls this the upper-layer binding: which data may be moved to a chunk, and the maximum
// sizes. Both sides must use the same. The length word stays in the message.
oncrpc::ProgramBinding Binding() {
  return {.program = kProgram,
          .version = 1,
          .procedures = {{.number = kReverse,
                          .max_argument_bytes = 4,
                          .max_eligible_argument_bytes = kMaxBytes,
                          .max_result_bytes = 4,
                          .max_eligible_result_bytes = kMaxBytes,
                          .idempotent = true}}};
}

// Runs on the server's worker. The argument is in the buffer of the RDMA READ or in the message.
// The result must stay untouched until `release` is called.
void Reverse(const rpcrdma::CallView& call, rpcrdma::ReplyHandle reply) {
  oncrpc::XdrReader reader = call.reader();
  const absl::Span<const uint8_t> argument = reader.EligibleOpaque(kMaxBytes);
  if (!reader.AtEnd()) return reply.Fail(oncrpc::AcceptStatus::kGarbageArguments);
  auto reversed = std::make_shared<std::vector<uint8_t>>(argument.rbegin(), argument.rend());
  uint8_t space[4];
  oncrpc::XdrWriter writer{absl::MakeSpan(space)};
  const size_t position = writer.EligibleOpaque(reversed->size());
  reply.Send(writer.bytes(), {.bytes = *reversed, .position = position, .release = [reversed] {}});
}

}  // namespace

int main() {
  Check(engine::InitEal());
  engine::DeviceOptions here, there;
  here.addresses = {Check(pollux::ParseInterfaceAddress("192.0.2.1/24"))};
  there.addresses = {Check(pollux::ParseInterfaceAddress("192.0.2.2/24"))};
  const engine::Device::Pair devices = Check(engine::Device::OpenPair(here, there));
  engine::Worker& server_worker = devices.first->worker();
  engine::Worker& client_worker = devices.second->worker();
  const auto server_cm = Check(cm::Manager::Create(&server_worker));
  const auto client_cm = Check(cm::Manager::Create(&client_worker));

  auto server = Check(rpcrdma::Server::Create(&server_worker, server_cm.get()));
  rpcrdma::Program program{.binding = Binding(), .procedures = {}};
  program.procedures.push_back({kReverse, Reverse});
  Check(server->RegisterProgram(std::move(program)));
  Check(server->Listen(kPort));

  // The workers do everything in Poll(), on this thread, so callbacks run on it, too.
  const engine::Clock clock;
  const auto poll_until = [&](const auto& done) {
    while (!done()) {
      server_worker.Poll(clock.NowNs());
      client_worker.Poll(clock.NowNs());
    }
  };

  auto client = Check(rpcrdma::Client::Create(&client_worker, client_cm.get(), Binding()));
  std::optional<absl::Status> connected, ended, answered;
  Check(client->Connect(
      {.address = devices.first->gid(), .port = kPort},
      [&](const absl::Status& status) { connected = status; },
      [&](const absl::Status& status) { ended = status; }));
  poll_until([&] { return connected.has_value(); });
  Check(*connected);

  // The memory of a call must stay untouched until its callback.
  std::vector<uint8_t> argument(100'000), result(kMaxBytes);
  for (size_t i = 0; i < argument.size(); ++i) argument[i] = static_cast<uint8_t>(i % 251);
  uint8_t space[4];
  oncrpc::XdrWriter writer{absl::MakeSpan(space)};
  const oncrpc::EligibleItem item{.bytes = argument,
                                  .position = writer.EligibleOpaque(argument.size())};
  const absl::Span<uint8_t> result_buffer = absl::MakeSpan(result);
  bool reversed = false;
  Check(client->Call({.procedure = kReverse,
                      .arguments = writer.bytes(),
                      .items = absl::MakeConstSpan(&item, 1),
                      .item_buffers = absl::MakeConstSpan(&result_buffer, 1)},
                     [&](absl::Status status, const oncrpc::Reply* reply) {
                       if (status.ok()) {
                         const auto bytes = reply->reader().EligibleOpaque(kMaxBytes);
                         reversed = std::equal(bytes.begin(), bytes.end(), argument.rbegin(),
                                               argument.rend());
                       }
                       answered = std::move(status);
                     }));
  poll_until([&] { return answered.has_value(); });
  Check(*answered);
  std::printf("%zu bytes reversed: %s; %llu came by RDMA WRITE\n", argument.size(),
              reversed ? "yes" : "no",
              static_cast<unsigned long long>(server->counters().bytes_written));

  client->Disconnect();
  poll_until([&] { return ended.has_value(); });
  client.reset();
  server.reset();
  devices.first->Close();
  devices.second->Close();
  return reversed ? 0 : 1;
}
