// The connections of a run's verbs measurements, from the main thread.
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

// Connections to one server, which go round the node's cores: number i lives on core i % cores().
class VerbsSession {
 public:
  explicit VerbsSession(Node& node) : node_(node) {}
  ~VerbsSession() { Keep(0); }

  // Until there are so many. An interrupt ends it with Cancelled.
  absl::Status Connect(const SocketAddress& server, size_t count);
  // Ends all but the first so many.
  void Keep(size_t count);

  // All at once, each on the connection of that number: what came of each, in the same order. The
  // last `beside` are stopped when the others are done. An interrupt ends them with Cancelled, and
  // so does that the interface under the port is gone.
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
