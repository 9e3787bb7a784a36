// The NFS version 3 server: exports over RPC-over-RDMA. Sources: RFC 1813, RFC 8267.
#ifndef POLLUX_NFS_SERVER_SERVER_H_
#define POLLUX_NFS_SERVER_SERVER_H_

#include <cstdint>
#include <deque>
#include <list>
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
  // The most exports that it will have at once; 0: those that it starts with, and no others.
  size_t max_exports = 0;
  // Optional logs of established and ended connections, and of refused messages. Called on the
  // core, so they must not block.
  absl::AnyInvocable<void(const std::string&)> log;
  absl::AnyInvocable<void(const std::string&)> log_refusal;
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
  // The most log lines per minute about established and ended connections, per address and in
  // total. A Linux mount has at most 16 connections (nconnect=16): within a minute, all of them may
  // be established and end once.
  static constexpr uint32_t kConnectionLinesOfAddress = 32;
  static constexpr uint32_t kConnectionLines = 128;

  // Listens for RDMA_PS_TCP connections at `options.port`. `worker`, `manager` and `exports` are
  // not owned and must outlive the server. AlreadyExists if the port has a listener.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        ServedExports* exports,
                                                        ServerOptions options);
  // Destroy it only when busy() is 0.
  ~Server() override;

  // Serves the exports of this table, which Prepare() has made, instead of the current ones. Calls
  // in progress end as they began. Calls that wait, and later ones, see the new table: a handle of
  // an export that it lacks is stale.
  void Serve(const ExportTable& table);
  // Accepts no more connections and begins no more calls. Call it before Shutdown() and wait until
  // running() is 0, so that the calls that have begun are answered.
  void StopTakingCalls();
  // Calls that have begun and whose replies have not reached their clients.
  size_t running() const { return rpc_->calls_in_progress() - waiting(); }
  // Ends every connection. Drops the calls that have not begun, which clients send to the next
  // server, and the replies of those that have. connections() and busy() fall to 0 as clients and
  // storage reply.
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
  struct Opened {
    std::shared_ptr<const ExportTree> tree;
    size_t calls = 0;  // in storage, or with replies that use their memory
  };
  // The calls of one export.
  struct Lane {
    ServedExport* served = nullptr;
    std::list<Opened> opened;   // the trees that calls use, and the current one
    Opened* current = nullptr;  // null: the export was removed
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
  // Returns null, and sets `*status` to the reason, if the handle is of no export.
  Lane* LaneOf(const rpcrdma::CallView& view, Nfsstat3* status);
  Lane& LaneFor(ServedExport* served);
  static void CloseUnused(Lane& lane);
  void Begin(Lane& lane, const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  void PutOff(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  // Answers a call with an error, without running it.
  void Refuse(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply, Nfsstat3 status);
  size_t waiting() const;
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
  PeerLogRateLimiter connection_lines_{kConnectionLinesOfAddress, kConnectionLines};
  std::deque<Lane> lanes_;
  size_t busy_ = 0;
  bool stopped_ = false;  // StopTakingCalls()
  // Its replies may refer to calls, so it is destroyed first.
  std::unique_ptr<rpcrdma::Server> rpc_;
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVER_H_
