// An NFS version 3 client over RPC-over-RDMA: typed calls on one connection. Source: RFC 1813.
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
  // Requested credits: the most outstanding calls.
  uint32_t credits = 32;
  // A lost connection is replaced, and its unfinished calls are sent again under their XIDs.
  rpcrdma::ReconnectPolicy reconnect = {
      .attempts = 60, .max_delay_ms = 2000, .max_total_ms = 60'000};
  // A call that was answered by NFS3ERR_JUKEBOX is repeated after this delay in milliseconds, which
  // doubles each time up to the limit; at most `jukebox_tries` times.
  uint32_t jukebox_delay_ms = 100;
  uint32_t max_jukebox_delay_ms = 5000;
  uint32_t jukebox_tries = 16;
  // Optional log of messages from the server that were refused; called on the core.
  std::function<void(const std::string& line)> log;
};

// Belongs to one worker's core: create, use and destroy it there; callbacks run there. Callbacks
// may call any function except the destructor.
class Client {
 public:
  // Memory for large results of a call.
  struct Room {
    // For the eligible result (READ, READLINK), as large as it may become. A short result may come
    // in the message instead; the decoded result points to it. It may be longer than this room if
    // the server does not comply.
    absl::Span<uint8_t> item;
    // The maximum size of the results in XDR bytes (the status, and the bytes that `count` allows),
    // for calls whose arguments set a lower limit than the binding does (READDIR, READDIRPLUS).
    uint32_t max_result_bytes = 0;
  };
  // `results` is valid during the callback, and not null if the status is OK. The caller must check
  // the status inside the results (nfsstat3). Errors are those of rpcrdma::CallDone, and DataLoss
  // for results that cannot be decoded.
  template <class Res>
  using Done = absl::AnyInvocable<void(absl::Status, const Res* results)>;

  // `worker` and `manager` are not owned and must outlive the client. Errors: InvalidArgument for a
  // credential beyond its limits, and those of rpcrdma::Client::Create().
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const oncrpc::AuthSys& credential,
                                                        const ClientConfig& config = {});
  // Unfinished calls end with Cancelled or Unavailable. Calls that their callbacks then make are
  // dropped.
  ~Client();

  // As rpcrdma::Client::Connect(). At most once.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected);
  // Ends the connection by a DREQ; unfinished calls end with Unavailable. `done` is called when the
  // connection is gone, or at once if there is none.
  void Disconnect(absl::AnyInvocable<void()> done);
  const rpcrdma::Client& rpc() const { return *rpc_; }

  // Makes a call. `done` is called once, never during this call. The eligible item of `arguments`,
  // and `room`, must stay untouched until then; everything else is copied.
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
  // A call and its memory until it is finished.
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
    absl::Status failed;                          // an error before the call was sent
    uint32_t jukeboxes = 0;                       // the number of NFS3ERR_JUKEBOX replies
    engine::Timer timer{&Client::OnTimer, this};  // due to repeat the call, or to report its error
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
  bool ending_ = false;     // in the destructor: no call can be sent
  absl::AnyInvocable<void()> disconnected_;
  engine::Worker* worker_;
  const ClientConfig config_;
  oncrpc::ProgramBinding binding_;
  std::vector<uint8_t> credential_;
  std::list<Pending> pending_;
  std::unique_ptr<rpcrdma::Client> rpc_;  // its destructor calls back, so it is destroyed first
};

}  // namespace pollux::nfs

#endif  // POLLUX_NFS_CLIENT_CLIENT_H_
