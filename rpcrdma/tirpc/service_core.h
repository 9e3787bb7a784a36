// The worker's half of a service: the server, and the queues by which calls go to the thread of
// svc_run().
#ifndef POLLUX_RPCRDMA_TIRPC_SERVICE_CORE_H_
#define POLLUX_RPCRDMA_TIRPC_SERVICE_CORE_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpcrdma/server.h"
#include "rpcrdma/tirpc/host.h"
#include "rpcrdma/tirpc/upper_layer.h"
#include "rpcrdma/tirpc/wakeup_queue.h"
#include "stack/base/socket_address.h"

namespace pollux::rpcrdma::tirpc {

inline constexpr uint32_t kCredits = 32;  // of a connection

// As ServerConfig has them.
struct ServiceLimits {
  uint32_t max_connections = 1024;
  uint32_t max_connections_per_client = 0;
};

// A call on its way. What `call` names stays where it is until the reply is given, on the worker.
struct PendingCall {
  CallView call;
  const UpperLayer* upper = nullptr;
  ReplyHandle reply;
};
// As many as a connection can have; one of null says that the connection has ended.
using Calls = WakeupQueue<std::unique_ptr<PendingCall>>;

// A connection, shared by both threads.
struct Channel {
  uint64_t connection = 0;  // CallView::connection
  SocketAddress peer;
  std::unique_ptr<Calls> calls;
  bool closed = false;  // the worker's: its SVCXPRT has gone, nobody takes calls any more
};
// Connections that made their first call.
using Accepted = WakeupQueue<std::shared_ptr<Channel>>;

// Made, called and destroyed on the worker's core. No ReplyHandle outlives it.
class ServiceCore {
 public:
  // `accepted` outlives this. Errors as Server::Create and Server::Listen.
  static absl::StatusOr<std::unique_ptr<ServiceCore>> Create(const Host& host, uint16_t port,
                                                             uint32_t bulk_bytes,
                                                             const ServiceLimits& limits,
                                                             Accepted* accepted);
  // `upper` outlives this. Errors as Server::RegisterProgram.
  absl::Status Add(const UpperLayer* upper);
  // No call is queued from now on; each is answered with a system error.
  void Close() { closing_ = true; }
  // Ends a connection (Channel::connection), if there still is one.
  void Disconnect(uint64_t connection) { server_->Disconnect(connection); }
  const Counters& counters() const { return server_->counters(); }

 private:
  explicit ServiceCore(Accepted* accepted) : accepted_(accepted) {}
  void OnCall(const UpperLayer* upper, const CallView& call, ReplyHandle reply);
  void OnEnded(uint64_t connection);
  // Null when it cannot be had: no descriptor, or too many that nobody has accepted.
  Channel* ChannelOf(const CallView& call);

  Accepted* accepted_;
  bool closing_ = false;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Channel>> channels_;  // by CallView::connection
  // Tells of connections that end with it: the first to go.
  std::unique_ptr<Server> server_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_CORE_H_
