// NFS version 3 as a client speaks it over RPC-over-RDMA: typed calls on one connection.
#ifndef POLLUX_NFS_CLIENT_CLIENT_H_
#define POLLUX_NFS_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cm/manager.h"
#include "nfs/v3/binding.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/codec.h"
#include "rpcrdma/client.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::nfs {

struct ClientConfig {
  // Asked for: calls outstanding at most.
  uint32_t credits = 32;
  // A connection that is lost is made again, and the calls that were on it are sent again under
  // their XIDs.
  rpcrdma::ReconnectPolicy reconnect = {.attempts = 30, .max_delay_ms = 2000};
  // A server that answers NFS3ERR_JUKEBOX is asked again after so long, and each time after twice
  // as long, up to the limit; so often in all.
  uint32_t jukebox_delay_ms = 100;
  uint32_t max_jukebox_delay_ms = 5000;
  uint32_t jukebox_tries = 16;
  // Told in words of what was refused of what the server sent; on the core. Optional.
  std::function<void(const std::string& line)> log;
};

// Belongs to one worker's core: made, called, called back and destroyed there. Callbacks may do
// anything but destroy it.
class Client {
 public:
  // Where the results go, of a call that has large ones.
  struct Room {
    // For the eligible result (READ, READLINK): as large as it may become. Short ones may come in
    // the message instead, and the decoded result tells where they are.
    absl::Span<uint8_t> item;
    // XDR bytes of the results, at most, when the arguments say less than the binding (READDIR,
    // READDIRPLUS): the status and what `count` allows.
    uint32_t max_result_bytes = 0;
  };
  // `results` is not null with an OK status; it is valid during the call. Its own status (nfsstat3)
  // is the caller's to look at. What went wrong else: as rpcrdma::CallDone, and DataLoss for
  // results that do not decode.
  template <class Res>
  using Done = absl::AnyInvocable<void(absl::Status, const Res* results)>;

  // `worker` and `manager` outlive the client. InvalidArgument: a credential past its bounds, or as
  // rpcrdma::Client::Create.
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const oncrpc::AuthSys& credential,
                                                        const ClientConfig& config = {});
  // Calls that are not done end with Cancelled or Unavailable; those that their callbacks make then
  // are forgotten.
  ~Client();

  // As rpcrdma::Client::Connect. Once.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected);
  // Ends the connection (DREQ); calls not done end with Unavailable. `done` when it is gone; at
  // once when there is none.
  void Disconnect(absl::AnyInvocable<void()> done);
  const rpcrdma::Client& rpc() const { return *rpc_; }

  // Makes a call; `done` is called once, never from inside. What `arguments` points to as an
  // eligible item, and `room`, must stay until then; the rest is copied.
  template <class Res, class Args>
  void Call(Procedure procedure, const Args& arguments, const Room& room, Done<Res> done) {
    Pending& pending = Add(procedure, room);
    const oncrpc::Encoded encoded = oncrpc::Encode(arguments, absl::MakeSpan(pending.arguments));
    pending.done = [done = std::move(done)](absl::Status status,
                                            const oncrpc::Reply* reply) mutable {
      if (!status.ok()) return done(std::move(status), nullptr);
      Res results;
      if (!oncrpc::Decode(reply->reader(), &results)) {
        return done(absl::DataLossError("the server's results do not decode"), nullptr);
      }
      done(absl::OkStatus(), &results);
    };
    Start(pending, encoded);
  }
  template <class Res, class Args>
  void Call(Procedure procedure, const Args& arguments, Done<Res> done) {
    Call<Res>(procedure, arguments, Room(), std::move(done));
  }

 private:
  // A call with its memory, until it is done.
  struct Pending {
    Pending(Client* client, Procedure number) : client(client), procedure(number) {}
    Client* client;
    Procedure procedure;
    std::vector<uint8_t> arguments;
    oncrpc::EligibleItem item;
    absl::Span<uint8_t> item_buffer;
    std::vector<uint8_t> reply;
    oncrpc::CallRequest request;
    absl::AnyInvocable<void(absl::Status, const oncrpc::Reply*)> done;
    absl::Status failed;                          // before it was sent
    uint32_t jukeboxes = 0;                       // answers
    engine::Timer timer{&Client::OnTimer, this};  // to be sent again, or told that it failed
    std::list<Pending>::iterator self;
  };

  Client(engine::Worker* worker, const ClientConfig& config) : worker_(worker), config_(config) {}
  Pending& Add(Procedure procedure, const Room& room);
  void Start(Pending& pending, const oncrpc::Encoded& encoded);
  void Send(Pending& pending);
  void FailSoon(Pending& pending, absl::Status status);
  void OnReply(Pending& pending, absl::Status status, const oncrpc::Reply* reply);
  void Finish(Pending& pending, absl::Status status, const oncrpc::Reply* reply);
  static void OnTimer(void* pending, uint64_t now_ns);

  bool connected_ = false;  // or connecting again
  bool ending_ = false;     // in the destructor: there is nothing to call by
  absl::AnyInvocable<void()> disconnected_;
  engine::Worker* worker_;
  const ClientConfig config_;
  oncrpc::ProgramBinding binding_;
  std::vector<uint8_t> credential_;
  std::list<Pending> pending_;
  std::unique_ptr<rpcrdma::Client> rpc_;  // its end calls back: it goes first
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_CLIENT_H_
