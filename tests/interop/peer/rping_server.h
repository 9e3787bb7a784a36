// An rping server for many clients at once, on one core.
#ifndef POLLUX_TESTS_INTEROP_PEER_RPING_SERVER_H_
#define POLLUX_TESTS_INTEROP_PEER_RPING_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "stack/engine/loop/worker.h"
#include "tests/interop/peer/rping.h"

namespace pollux::tools {

// All functions must be called on the worker's core. Servers on several workers of a device share
// its clients.
class RpingServer {
 public:
  // at once; each takes Rping::kMaxBytes. More must wait
  static constexpr size_t kMaxClients = 256;

  struct Options {
    SocketAddress local;  // all zeros: any address
    // Returns the Rping::Options of a client; the server sets `on_done`. Null: the defaults.
    std::function<Rping::Options()> of_client;
    // Called at each client's end, as Rping::Options::on_done.
    absl::AnyInvocable<void(const absl::Status& status)> on_end;
  };

  // Worker and manager must outlive the server. Errors as cm::Manager::BindAddr() and Listen().
  static absl::StatusOr<std::unique_ptr<RpingServer>> Listen(engine::Worker* worker,
                                                             cm::Manager* manager, Options options);
  // Disconnects the remaining clients without waiting for their replies.
  ~RpingServer();
  RpingServer(const RpingServer&) = delete;
  RpingServer& operator=(const RpingServer&) = delete;

  // Stops listening and disconnects every client; clients() falls to 0 as they reply.
  void Shutdown();
  size_t clients() const { return clients_.size(); }
  uint64_t served() const { return served_; }  // clients so far
  uint64_t pings() const;                      // of all clients

 private:
  RpingServer(engine::Worker* worker, cm::Manager* manager, Options options)
      : worker_(worker), manager_(manager), options_(std::move(options)) {}

  absl::Status Begin();
  void OnRequest(const cm::Event& event);
  void OnDone(uint64_t number, const absl::Status& status);
  void Remove(uint64_t number);

  engine::Worker* const worker_;
  cm::Manager* const manager_;
  Options options_;
  cm::Id* listener_ = nullptr;
  uint64_t served_ = 0;
  uint64_t pings_ = 0;                                  // of clients that have ended
  std::map<uint64_t, std::unique_ptr<Rping>> clients_;  // in order of arrival
  // For work that is posted to the worker's loop and must be skipped if the server has been
  // destroyed.
  std::shared_ptr<RpingServer*> self_ = std::make_shared<RpingServer*>(this);
};

}  // namespace pollux::tools

#endif  // POLLUX_TESTS_INTEROP_PEER_RPING_SERVER_H_
