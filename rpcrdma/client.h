// An RPC client: one connection to one server at a time, for one program.
#ifndef POLLUX_RPCRDMA_CLIENT_H_
#define POLLUX_RPCRDMA_CLIENT_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "oncrpc/binding.h"
#include "oncrpc/call.h"
#include "rpcrdma/connection/connection.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/connection/message_demux.h"
#include "rpcrdma/connection/refusal_log.h"
#include "rpcrdma/requester/requester.h"
#include "rpcrdma/responder/lost_replies.h"
#include "rpcrdma/responder/program.h"
#include "rpcrdma/responder/program_table.h"
#include "rpcrdma/responder/reply_cache.h"
#include "rpcrdma/responder/responder.h"
#include "rpcrdma/wire/negotiated.h"
#include "stack/base/stats.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

// What a client does when a connection that was established is lost. Calls that are not done stay,
// wait, and are sent again on the next connection under the XIDs that they have, with memory
// freshly offered: a server with a reply cache runs each at most once.
struct ReconnectPolicy {
  // How often in a row it tries; 0: a lost connection fails the calls. The count begins anew when a
  // connection brought a reply or lasted max_delay_ms. A call that was sent on attempts + 1
  // connections fails when the last of them is lost; those that were given up for silence are not
  // counted, so that a server that is there may take as long for a call as CallRequest::timeout_ns
  // allows.
  // RFC 8167 section 5.4: who is called by its server keeps a connection.
  uint32_t attempts = 0;
  // So many that there is no end to it.
  static constexpr uint32_t kForEver = UINT32_MAX - 1;
  // Before the first try and at most; each waits twice as long as the last, less a random part of
  // at most a half.
  uint32_t first_delay_ms = 50;
  uint32_t max_delay_ms = 10'000;
  // A connection on which a call has had no answer for so long counts as lost (see
  // RequesterConfig): a call that takes the server longer is sent again, and joins the one that
  // runs. 0: never.
  uint32_t silence_ms = 60'000;
};

struct ClientConfig {
  uint32_t credits = 32;         // 1..256: calls outstanding at most
  uint32_t reverse_credits = 4;  // 1..256: calls of the server's at most. RFC 8167
  uint32_t max_calls = 1024;     // outstanding and waiting together
  uint32_t send_bytes = 4096;    // inline sizes, RFC 8797: 1,024..262,144, multiples of 1,024
  uint32_t receive_bytes = 4096;
  bool remote_invalidation = true;  // the server may invalidate what calls offer. RFC 8797
  oncrpc::OpaqueAuth credential;    // its body outlives the client
  uint32_t resolve_timeout_ms = 5000;
  ReconnectPolicy reconnect;
  cm::ConnectionParam connection;  // private data is filled in
};

// Lives on one worker, on which the CM manager lives too; every call is made and every callback
// runs on its core. Callbacks may call anything here but the destructor.
class Client : public engine::Poller, private StatsProvider {
 public:
  // InvalidArgument for a binding that does not hold, or sizes past their bounds. `worker` and
  // `manager` outlive the client.
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        oncrpc::ProgramBinding binding,
                                                        const ClientConfig& config = {});
  // Disconnects; calls that are not done end with Cancelled.
  ~Client() override;

  // Connects, or connects again after the last connection ended. `on_connected` is called once,
  // not from inside: OK, or Unavailable with what was tried and what was found. After OK,
  // `on_ended` is called once when the connection ends for good, whoever ended it: a connection
  // that the ReconnectPolicy replaces does not end. All calls are done by then. FailedPrecondition
  // while there is a connection.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected,
                       absl::AnyInvocable<void(absl::Status)> on_ended);
  // Programs that the server may call, by the connections that are made from now on. RFC 8167. What
  // there is no program for is answered so; a call with chunks, by ERR_CHUNK. AlreadyExists,
  // InvalidArgument: see ProgramTable. No handler may hold a reply when the client goes.
  absl::Status RegisterProgram(Program program) { return programs_.Add(std::move(program)); }
  // As Server::SetRefusalLog, of what the server sent.
  void SetRefusalLog(RefusalLog::Sink sink) { refusal_log_.SetSink(std::move(sink)); }
  // Ends the connection (DREQ); `on_ended` tells when. Calls not done end with Unavailable.
  void Disconnect();
  bool connected() const { return state_ == State::kConnected; }
  // A lost connection is being replaced: calls are taken, and wait.
  bool reconnecting() const { return established_ && !leaving_ && !connected(); }

  // What calls are checked by from now on, in place of the binding that Create() was given, and as
  // valid. While no call is under way.
  void Rebind(oncrpc::ProgramBinding binding) { binding_ = std::move(binding); }
  // See Requester::Call. Unavailable when neither connected nor reconnecting.
  absl::Status Call(const oncrpc::CallRequest& request, oncrpc::CallDone done,
                    oncrpc::CallId* id = nullptr);
  // See Requester::Cancel.
  bool Cancel(const oncrpc::CallId& id) { return requester_ != nullptr && requester_->Cancel(id); }

  // Of the connection there is, or the last one.
  const Negotiated& negotiated() const { return negotiated_; }
  // Calls the server allows outstanding, by its last reply; 0 without a connection.
  uint32_t granted_credits() const { return connected() ? requester_->window().granted() : 0; }
  // Keys advertised to the server right now.
  uint32_t advertised_regions() const { return requester_ ? requester_->advertised_regions() : 0; }
  const Counters& counters() const { return counters_; }
  // Bytes that came in chunks, or went out in some, that the caller has copied.
  void CountCopied(uint64_t bytes) { counters_.bytes_copied += bytes; }

  bool Poll(uint64_t now_ns) override;

 private:
  // Of the connection, in this order.
  enum class State : uint8_t {
    kIdle,
    kPausing,     // before the next try to reconnect
    kResolving,   // address, route
    kBinding,     // the queue pair goes to INIT
    kConnecting,  // REQ sent
    kConnected,
    kDisconnecting,  // DREQ sent
  };

  Client(engine::Worker* worker, cm::Manager* manager, oncrpc::ProgramBinding binding,
         const ClientConfig& config);
  // One connection, and what answers the server on it.
  struct Link {
    std::unique_ptr<Connection> connection;
    std::unique_ptr<Responder> responder;  // once established
    std::unique_ptr<MessageDemux> demux;
  };

  absl::Status StartConnecting();
  bool Collect(const StatsQuery& query, Stats* stats) override;
  void OnEvent(const cm::Event& event);
  void OnRouteResolved();
  void OnBound(const absl::Status& status);
  void OnEstablished(const cm::Event& event);
  // Takes everything of the connection down at the next poll.
  void End(absl::Status status);
  void TakeDown();
  void Drop(Link link);
  // Whether a try is left, and it is under way.
  bool TryAgain();
  void Finish();
  static void OnRetry(void* client, uint64_t now_ns);

  engine::Worker* worker_;
  cm::Manager* manager_;
  oncrpc::ProgramBinding binding_;
  ClientConfig config_;
  Counters counters_;
  State state_ = State::kIdle;
  SocketAddress server_;
  cm::Id* id_ = nullptr;
  // Of calls from the server; outlive the links.
  ProgramTable programs_;
  ReplyCache replies_;
  LostReplies lost_;
  RefusalLog refusal_log_;  // outlives the links
  Link link_;
  std::vector<Link> ended_;  // in which a handler still holds a reply to the server
  std::unique_ptr<Requester> requester_;
  Negotiated negotiated_;
  bool established_ = false;  // since Connect()
  bool leaving_ = false;      // by Disconnect()
  bool ending_ = false;
  absl::Status end_status_;
  uint32_t tries_ = 0;  // to reconnect, in a row
  uint64_t connected_at_ns_ = 0;
  engine::Timer retry_timer_;
  absl::AnyInvocable<void(absl::Status)> on_connected_;
  absl::AnyInvocable<void(absl::Status)> on_ended_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CLIENT_H_
