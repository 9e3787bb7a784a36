#include "tools/session.h"

#include <chrono>
#include <cstdio>
#include <future>

#include "tools/cm_trace.h"

namespace pollux::tools {
namespace {

// `begin` starts the goodbye and gives its end to the callback it is handed; `destroy` may run with
// that callback still held, and is the last that holds it.
template <class Begin, class Destroy>
void SayGoodbye(Node& node, Begin begin, Destroy destroy) {
  std::promise<void> gone;
  node.Run([&] { begin([&gone] { gone.set_value(); }); });
  gone.get_future().wait_for(std::chrono::seconds(kGoodbyeSeconds));
  node.Run(destroy);
}

}  // namespace

void PrintCmExchange(Node& node) {
  node.Run([&node] {
    node.manager().SetTrace([](bool outgoing, absl::Span<const uint8_t> mad) {
      std::fprintf(stderr, "%s", DescribeMad(outgoing, mad).c_str());
    });
  });
}

absl::StatusOr<std::unique_ptr<FileClient>> ConnectClient(Node& node, const cm::Endpoint& server,
                                                          const FileClient::Options& options) {
  std::promise<absl::StatusOr<std::unique_ptr<FileClient>>> connected;
  auto result = connected.get_future();
  node.Run([&] {
    FileClient::Connect(&node.device().worker(), &node.manager(), server, options,
                        [&connected](absl::StatusOr<std::unique_ptr<FileClient>> client) {
                          connected.set_value(std::move(client));
                        });
  });
  return result.get();
}

void End(Node& node, std::unique_ptr<FileClient> client) {
  if (client == nullptr) return;
  SayGoodbye(
      node, [&](auto done) { client->Disconnect(std::move(done)); }, [&] { client.reset(); });
}

void End(Node& node, std::unique_ptr<FileServer> server) {
  if (server == nullptr) return;
  SayGoodbye(
      node, [&](auto done) { server->Shutdown(std::move(done)); }, [&] { server.reset(); });
}

}  // namespace pollux::tools
