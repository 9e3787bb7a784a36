// The connections for a run's verbs measurements. Used on the main thread.
#ifndef POLLUX_TOOLS_BENCH_VERBS_SESSION_H_
#define POLLUX_TOOLS_BENCH_VERBS_SESSION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cm/manager.h"
#include "tools/bench/verbs_client.h"
#include "tools/common/load.h"
#include "tools/common/node.h"

namespace pollux::tools {

// Connections to one server, distributed over the node's cores: connection i is on core i %
// cores().
class VerbsSession {
 public:
  explicit VerbsSession(Node& node) : node_(node) {}
  ~VerbsSession() { Keep(0); }

  // Connects until there are `count` connections. An interrupt ends it with Cancelled.
  absl::Status Connect(const SocketAddress& server, size_t count);
  // Ends all connections except the first `count`.
  void Keep(size_t count);

  // Makes all measurements at once, each on the connection with the given number. Returns the
  // results in the same order. The last `beside` measurements are stopped when the others are done.
  // An interrupt, or the loss of the port's interface, ends them with an error (Cancelled for an
  // interrupt).
  std::vector<LoadResult> Measure(
      const std::vector<std::pair<size_t, VerbsMeasurement>>& measurements, size_t beside = 0);

 private:
  uint32_t CoreOf(size_t number) const { return static_cast<uint32_t>(number % node_.cores()); }
  absl::Status ConnectOne(const SocketAddress& server);
  void DisconnectAll();

  Node& node_;
  std::vector<std::unique_ptr<VerbsClient>> clients_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_VERBS_SESSION_H_
