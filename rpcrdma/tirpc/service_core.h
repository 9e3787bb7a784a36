// The part of a service that runs on the worker: the server, and the queues that pass calls to
// svc_run()'s thread.
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

inline constexpr uint32_t kCredits = 32;  // per connection

// As in ServerConfig.
struct ServiceLimits {
  uint32_t max_connections = 1024;
  uint32_t max_connections_per_client = 0;
};

// A queued call. The memory to which `call` refers remains valid until the reply is sent on the
// worker.
struct PendingCall {
  CallView call;
  const UpperLayer* upper = nullptr;
  ReplyHandle reply;
};
// Holds as many calls as a connection can have. A null entry means that the connection has ended.
using Calls = WakeupQueue<std::unique_ptr<PendingCall>>;

// A connection, shared by both threads.
struct Channel {
  uint64_t connection = 0;  // CallView::connection
  SocketAddress peer;
  std::unique_ptr<Calls> calls;
  // used by the worker: the SVCXPRT was destroyed, and calls are not taken any more
  bool closed = false;
};
// Connections that have made their first call.
using Accepted = WakeupQueue<std::shared_ptr<Channel>>;

// Created, used and destroyed on the worker's core. No ReplyHandle may outlive it.
class ServiceCore {
 public:
  // `accepted` must outlive this object. Errors as Server::Create() and Server::Listen().
  static absl::StatusOr<std::unique_ptr<ServiceCore>> Create(const Host& host, uint16_t port,
                                                             uint32_t bulk_bytes,
                                                             const ServiceLimits& limits,
                                                             Accepted* accepted);
  // `upper` must outlive this object. Errors as Server::RegisterProgram().
  absl::Status Add(const UpperLayer* upper);
  // Stops queueing calls; further calls are answered with a system error.
  void Close() { closing_ = true; }
  // Ends a connection (Channel::connection) if it still exists.
  void Disconnect(uint64_t connection) { server_->Disconnect(connection); }
  const Counters& counters() const { return server_->counters(); }

 private:
  explicit ServiceCore(Accepted* accepted) : accepted_(accepted) {}
  void OnCall(const UpperLayer* upper, const CallView& call, ReplyHandle reply);
  void OnEnded(uint64_t connection);
  // Returns null if there is no file descriptor left, or if too many connections wait to be
  // accepted.
  Channel* ChannelOf(const CallView& call);

  Accepted* accepted_;
  bool closing_ = false;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Channel>> channels_;  // by CallView::connection
  // Destroyed first, because its destructor reports the connections that it ends.
  std::unique_ptr<Server> server_;
};

}  // namespace pollux::rpcrdma::tirpc

#endif  // POLLUX_RPCRDMA_TIRPC_SERVICE_CORE_H_
