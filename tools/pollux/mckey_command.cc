// pollux mckey: what rdma-core's mckey does, with one of those or with another pollux.
#include <chrono>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/address.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/mckey.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;

// How long the port stays after the end: a wire in shared memory ends with it, and what lies there
// unread.
constexpr int kMckeyLingerMs = 300;

struct McastOptions {
  PortOptions port;
  std::string group;
  std::string bind;
  bool sender = false;
  uint64_t messages = 10;
  uint64_t bytes = 100;
  uint64_t pause_ms = 1'000;
  uint64_t timeout_ms = 20'000;
  bool json = false;
};

absl::StatusOr<Mckey::Options> Configure(const McastOptions& options) {
  Mckey::Options mckey;
  absl::StatusOr<Gid> group = pollux::ParseAddress(options.group);
  if (!group.ok() || !group->IsMulticast()) {
    return absl::InvalidArgumentError(
        absl::StrCat("which group? give -m with a multicast address, not '", options.group, "'"));
  }
  mckey.group = *group;
  if (!options.bind.empty()) {
    absl::StatusOr<Gid> local = pollux::ParseAddress(options.bind);
    if (!local.ok()) return local.status();
    mckey.local = *local;
  }
  mckey.sender = options.sender;
  mckey.messages = static_cast<uint32_t>(options.messages);
  mckey.bytes = static_cast<uint32_t>(options.bytes);
  mckey.pause_ns = options.pause_ms * 1'000'000;
  mckey.idle_ns = options.timeout_ms * 1'000'000;
  mckey.on_joined = [group = options.group] {
    std::fprintf(stderr, "listening: joined %s\n", group.c_str());
  };
  return mckey;
}

// One member, from its making on the worker's core to its end there.
absl::Status RunMember(Mckey::Options options, Node& node, Json* json) {
  std::promise<absl::Status> done;
  std::future<absl::Status> result = done.get_future();
  options.on_done = [&done](const absl::Status& status) { done.set_value(status); };
  auto made = node.Run(
      [&] { return Mckey::Start(&node.device().worker(), &node.manager(), std::move(options)); });
  if (!made.ok()) return made.status();
  while (result.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready &&
         !Interrupted()) {
  }
  const bool ended = result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  const absl::Status status = ended ? result.get() : absl::CancelledError("interrupted");
  node.Run([&] {
    (*json)["messages_sent"] = (*made)->sent();
    (*json)["messages_received"] = (*made)->received();
    made->reset();
  });
  SleepUntilInterrupted(kMckeyLingerMs);
  return Explain(node, status);
}

absl::Status Run(const McastOptions& options, Json* json) {
  absl::StatusOr<Mckey::Options> configured = Configure(options);
  if (!configured.ok()) return configured.status();
  absl::StatusOr<std::unique_ptr<Node>> node = StartNode(options.port);
  if (!node.ok()) return node.status();
  absl::Status status = RunMember(*std::move(configured), **node, json);
  (*node)->StopPolling();
  return status;
}

}  // namespace

int MckeyCommand(int argc, char** argv) {
  McastOptions mcast;
  Options options("mckey -m GROUP [-s] [options]",
                  "Joins a multicast group and receives datagrams, or with -s sends them, as\n"
                  "rdma-core's mckey does: interoperates with it.");
  DeclarePortOptions(options, &mcast.port);
  options.Text("multicast", "GROUP", "the group's address", &mcast.group);
  options.Text("bind", "ADDR", "which of the port's own addresses to use", &mcast.bind);
  options.Switch("sender", "send; without this option receive", &mcast.sender);
  options.Number("count", "messages (10)", 1, Mckey::kMaxMessages, &mcast.messages);
  options.Number("size", "bytes of a message (100)", 1, 4096, &mcast.bytes);
  options.Number("pause-ms", "from a sender's join to its first message (1000)", 0, 3'600'000,
                 &mcast.pause_ms);
  options.Number("timeout-ms", "give up when nothing has come for so long (20000)", 1, 3'600'000,
                 &mcast.timeout_ms);
  options.Switch("json", "one JSON object on standard output instead of text", &mcast.json);
  const std::pair<const char*, char> letters[] = {
      {"multicast", 'm'}, {"bind", 'b'}, {"sender", 's'}, {"count", 'C'}, {"size", 'S'},
  };
  for (const auto& [name, letter] : letters) options.Letter(name, letter);
  if (auto operands = options.Parse(argc, argv, 0, 0); !operands.ok()) {
    return Fail("mckey", operands.status());
  }
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return kExitOk;
  }
  CatchInterrupts();
  Json counts = {{"messages_sent", 0}, {"messages_received", 0}};
  const absl::Status status = Run(mcast, &counts);
  return Finish("mckey", mcast.json, status, counts,
                absl::StrFormat("data transfers complete: %u sent, %u received\n",
                                counts["messages_sent"].get<uint32_t>(),
                                counts["messages_received"].get<uint32_t>()));
}

}  // namespace pollux::tools
