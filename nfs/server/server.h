// The NFS version 3 server: exports over RPC-over-RDMA. Sources: RFC 1813, RFC 8267.
#ifndef POLLUX_NFS_SERVER_SERVER_H_
#define POLLUX_NFS_SERVER_SERVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "nfs/server/call.h"
#include "nfs/server/counters.h"
#include "nfs/server/served_export.h"
#include "nfs/v3/binding.h"
#include "rpcrdma/server.h"
#include "stack/base/log_rate_limiter.h"
#include "stack/base/socket_address.h"
#include "stack/base/stats.h"
#include "stack/engine/loop/worker.h"

namespace pollux::nfs {

struct ServerOptions {
  uint16_t port = kNfsRdmaPort;
  // See rpcrdma::ServerConfig.
  uint32_t max_connections = 1024;
  uint32_t max_connections_per_client = 0;
  // Optional log of established and ended connections and of refused messages. Called on the core,
  // so it must not block.
  absl::AnyInvocable<void(const std::string&)> log;
  // Returns whether the end of a client's connection has been logged already as a failure.
  // Optional; called on the core, once for each connection that ends.
  absl::AnyInvocable<bool(const SocketAddress& client)> has_failed;
};

// Belongs to one worker's core: create, poll and destroy it there. It never waits for a file
// system. Each call takes one of its export's Storage::kMaxJobs places, or waits for one for at
// most kMaxWaitNs. Then it is answered by NFS3ERR_JUKEBOX, which makes the client try again, so an
// export that stalls returns the buffers and credits that calls for other exports need.
class Server final : public engine::Poller, private StatsProvider, private Call::Owner {
 public:
  // In nanoseconds. Longer than a busy file system that does not stall takes for the earlier calls.
  static constexpr uint64_t kMaxWaitNs = 2'000'000'000;
  static constexpr uint32_t kAclLinesPerMinute = 16;  // log lines about clients that ask for ACLs

  // Listens for RDMA_PS_TCP connections at `options.port`. `worker`, `manager` and `exports` are
  // not owned and must outlive the server. AlreadyExists if the port has a listener.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        ServedExports* exports,
                                                        ServerOptions options);
  // Destroy it only when busy() is 0.
  ~Server() override;

  // Ends every connection and accepts no more calls. connections() and busy() fall to 0 as clients
  // and storage reply.
  void Shutdown();
  size_t connections() const { return rpc_->connections(); }
  size_t busy() const { return busy_; }  // calls in storage, or waiting for it
  const Counters& counters() const { return counters_; }

  bool Poll(uint64_t now_ns) override;

 private:
  struct Waiting {
    rpcrdma::CallView view;
    rpcrdma::ReplyHandle reply;
    uint64_t since_ns = 0;
  };
  // The calls of one export.
  struct Lane {
    ServedExport* served = nullptr;
    std::vector<std::unique_ptr<Call>> calls;
    std::vector<Call*> free;
    std::deque<Waiting> waiting;
    bool stalls = false;  // a call waited too long, and none has finished since
  };

  Server(engine::Worker* worker, ServedExports* exports, ServerOptions options);
  absl::Status Start(cm::Manager* manager);
  rpcrdma::Program MakeProgram();
  // NFS_ACL, which is not served: clients ask for it at every mount and do without.
  rpcrdma::Program MakeAclProgram();
  void Handle(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  Lane& LaneOf(const rpcrdma::CallView& view);
  void Begin(Lane& lane, const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  void PutOff(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  // Starts or defers the first waiting call. Returns false if it must keep waiting.
  bool MoveOn(Lane& lane);
  void PostDone(Call* call) override;
  void PostPart(Call* call) override;
  void Reply(Call* call);
  void Release(Call* call);
  void Free(Call* call);
  void LogConnection(const rpcrdma::Server::ConnectionInfo& info, bool established);
  bool Collect(const StatsQuery& query, Stats* stats) override;

  engine::Worker* worker_;
  ServedExports* exports_;
  ServerOptions options_;
  Counters counters_;
  LogRateLimiter acl_lines_{kAclLinesPerMinute};
  std::deque<Lane> lanes_;
  size_t busy_ = 0;
  // Its replies may refer to calls, so it is destroyed first.
  std::unique_ptr<rpcrdma::Server> rpc_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVER_H_
