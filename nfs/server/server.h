// The NFS version 3 server: exports over RPC-over-RDMA. Sources: RFC 1813, RFC 8267.
#ifndef POLLUX_NFS_SERVER_SERVER_H_
#define POLLUX_NFS_SERVER_SERVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "nfs/binding.h"
#include "nfs/server/call.h"
#include "nfs/server/counters.h"
#include "nfs/server/served_export.h"
#include "rpcrdma/server.h"
#include "stack/engine/report.h"
#include "stack/engine/worker.h"

namespace pollux::nfs {

struct ServerOptions {
  uint16_t port = kNfsRdmaPort;
  // Told in words of connections made and gone. Optional.
  absl::AnyInvocable<void(const std::string&)> log;
};

// Belongs to one worker's core: made, polled and destroyed there. It never waits for a file system:
// each call is one of its export's Storage::kMaxJobs, or waits for one of them; those that wait are
// as many as clients have credits.
class Server final : public engine::Poller, private engine::Reporter, private Call::Owner {
 public:
  // All outlive it. AlreadyExists when the port has a listener.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        ServedExports* exports,
                                                        ServerOptions options);
  // Only when busy() is 0.
  ~Server() override;

  // Ends every connection, takes no calls any more. connections() and busy() fall to 0 as clients
  // and storage answer.
  void Shutdown();
  size_t connections() const { return rpc_->connections(); }
  size_t busy() const { return busy_; }  // calls that storage has not answered, or that wait for it
  const Counters& counters() const { return counters_; }

  bool Poll(uint64_t now_ns) override;

 private:
  // The calls of one export.
  struct Lane {
    ServedExport* served = nullptr;
    std::vector<std::unique_ptr<Call>> calls;
    std::vector<Call*> free;
    std::deque<std::pair<rpcrdma::CallView, rpcrdma::ReplyHandle>> waiting;
  };

  Server(engine::Worker* worker, ServedExports* exports, ServerOptions options);
  absl::Status Start(cm::Manager* manager);
  rpcrdma::Program MakeProgram();
  void Handle(const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  Lane& LaneOf(const rpcrdma::CallView& view);
  void Begin(Lane& lane, const rpcrdma::CallView& view, rpcrdma::ReplyHandle reply);
  void PostDone(Call* call) override;
  void Answer(Call* call);
  void Free(Call* call);
  void LogConnection(const rpcrdma::Server::ConnectionInfo& info, bool established);
  bool Tell(const engine::Question& question, engine::Report* report) override;

  engine::Worker* worker_;
  ServedExports* exports_;
  ServerOptions options_;
  Counters counters_;
  std::deque<Lane> lanes_;
  size_t busy_ = 0;
  bool freed_ = false;                    // a call, while others wait
  std::unique_ptr<rpcrdma::Server> rpc_;  // its replies may hold calls: it goes first
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_SERVER_SERVER_H_
