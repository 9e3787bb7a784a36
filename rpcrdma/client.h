// An RPC client for one program, with one connection to one server at a time.
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

// The policy by which a client replaces an established connection that was lost. Unfinished calls
// wait and are sent again on the next connection, with the same XIDs and newly registered memory. A
// server with a reply cache runs each at most once.
struct ReconnectPolicy {
  // Attempts in a row; 0: a lost connection fails all calls. The count restarts after a connection
  // that delivered a reply or lasted max_delay_ms. A call that was sent on attempts + 1 connections
  // fails when the last of them is lost. Connections that were given up as silent are not counted,
  // so a reachable server may take as long for a call that must not run twice as
  // CallRequest::timeout_ns allows, and up to 16 * silence_ms for an idempotent one. RFC 8167
  // section 5.4: a client that accepts calls from its server keeps its connection.
  uint32_t attempts = 0;
  // Unlimited attempts.
  static constexpr uint32_t kForEver = UINT32_MAX - 1;
  // The delay before the first attempt, and the maximum. Each delay is twice the previous one, less
  // a random part of at most half.
  uint32_t first_delay_ms = 50;
  uint32_t max_delay_ms = 10'000;
  // The time for all attempts in a row, in milliseconds: after it the client gives up, although
  // attempts are left. 0: no limit. A single attempt can take 77 s if the server's host does not
  // answer.
  uint32_t max_total_ms = 0;
  // A connection on which a call has had no reply for this long counts as lost (see
  // RequesterConfig). A call that takes the server longer is sent again, with more time; if it must
  // not run twice, it joins the one that still runs. 0: never.
  uint32_t silence_ms = 60'000;
};

struct ClientConfig {
  uint32_t credits = 32;         // 1..256: maximum calls outstanding
  uint32_t reverse_credits = 4;  // 1..256: maximum calls from the server. RFC 8167
  uint32_t max_calls = 1024;     // outstanding and waiting calls together
  // Inline sizes in bytes, RFC 8797: 1,024..262,144, multiples of 1,024.
  uint32_t send_bytes = 4096;
  uint32_t receive_bytes = 4096;
  bool remote_invalidation = true;  // lets the server invalidate memory offered by calls. RFC 8797
  oncrpc::OpaqueAuth credential;    // its body is not copied and must outlive the client
  uint32_t resolve_timeout_ms = 5000;
  ReconnectPolicy reconnect;
  cm::ConnectionParam connection;  // private data is set by the client
};

// Runs as a poller of one worker, on which the CM manager must run too. All calls must be made, and
// all callbacks run, on that worker's core. Callbacks may call any function except the destructor.
class Client : public engine::Poller, private StatsProvider {
 public:
  // `worker` and `manager` are not owned and must outlive the client. InvalidArgument for an
  // invalid binding, sizes outside their limits, or a credential longer than kMaxAuthBytes.
  static absl::StatusOr<std::unique_ptr<Client>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        oncrpc::ProgramBinding binding,
                                                        const ClientConfig& config = {});
  // Disconnects. Unfinished calls end with Cancelled.
  ~Client() override;

  // Connects, or connects again after the last connection ended. `on_connected` is called once, not
  // during this call: with OK, or with Unavailable and the reason. After OK, `on_ended` is called
  // once when the connection ends, whichever side ended it; a connection that the ReconnectPolicy
  // replaces does not end. All calls are finished by then. Errors: FailedPrecondition if there is a
  // connection already or the client is being destroyed, and those of cm::Manager::CreateId(); no
  // callback follows an error.
  absl::Status Connect(const SocketAddress& server,
                       absl::AnyInvocable<void(absl::Status)> on_connected,
                       absl::AnyInvocable<void(absl::Status)> on_ended);
  // Registers a program that the server may call on connections made later. RFC 8167. Calls to
  // other programs get an RPC error, calls with chunks ERR_CHUNK. Errors are those of ProgramTable:
  // AlreadyExists, InvalidArgument. No handler may hold a ReplyHandle when the client is destroyed.
  absl::Status RegisterProgram(Program program) { return programs_.Add(std::move(program)); }
  // As Server::SetRefusalLog(), for messages from the server.
  void SetRefusalLog(RefusalLog::Sink sink) { refusal_log_.SetSink(std::move(sink)); }
  // Ends the connection by a DREQ; `on_ended` follows. Unfinished calls end with Unavailable.
  void Disconnect();
  bool connected() const { return state_ == State::kConnected; }
  // True while a lost connection is being replaced. Calls are accepted and wait.
  bool reconnecting() const { return established_ && !leaving_ && !connected(); }

  // Replaces the binding that Create() received; it must be equally valid. Only while no call is in
  // progress.
  void Rebind(oncrpc::ProgramBinding binding) {
    binding_ = std::move(binding);
    if (requester_ != nullptr) requester_->Rebind();
  }
  // See Requester::Call(). Returns Unavailable if the client is neither connected nor reconnecting.
  absl::Status Call(const oncrpc::CallRequest& request, oncrpc::CallDone done,
                    oncrpc::CallId* id = nullptr);
  // See Requester::Cancel.
  bool Cancel(const oncrpc::CallId& id) { return requester_ != nullptr && requester_->Cancel(id); }

  // For the current connection, or for the last one.
  const Negotiated& negotiated() const { return negotiated_; }
  // The number of calls that the server allows, from its last reply; 0 without a connection.
  uint32_t granted_credits() const { return connected() ? requester_->window().granted() : 0; }
  // The number of memory regions that the server may access now.
  uint32_t advertised_regions() const { return requester_ ? requester_->advertised_regions() : 0; }
  const Counters& counters() const { return counters_; }
  // Counts bytes of chunks that the caller has copied.
  void CountCopied(uint64_t bytes) { counters_.bytes_copied += bytes; }

  bool Poll(uint64_t now_ns) override;

 private:
  // The states of the connection, in this order.
  enum class State : uint8_t {
    kIdle,
    kPausing,     // before the next attempt to reconnect
    kResolving,   // resolving address and route
    kBinding,     // the queue pair is being moved to INIT
    kConnecting,  // REQ sent
    kConnected,
    kDisconnecting,  // DREQ sent
  };

  Client(engine::Worker* worker, cm::Manager* manager, oncrpc::ProgramBinding binding,
         const ClientConfig& config);
  // One connection and the objects that serve it.
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
  // Ends the connection: it is taken down at the next poll.
  void End(absl::Status status);
  void TakeDown();
  void Drop(Link link);
  // Whether there is nothing to do until something wakes the poller.
  bool MaySleep() const;
  // Starts another attempt if one is left; returns whether it did.
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
  // For calls from the server. These outlive the links.
  ProgramTable programs_;
  ReplyCache replies_;
  LostReplies lost_;
  RefusalLog refusal_log_;  // outlives the links
  Link link_;
  std::vector<Link> ended_;  // their handlers still hold ReplyHandles
  std::unique_ptr<Requester> requester_;
  uint64_t earlier_calls_ = 0;  // made by the requesters before it
  Negotiated negotiated_;
  bool established_ = false;  // since Connect()
  bool leaving_ = false;      // Disconnect() was called
  bool ending_ = false;
  bool destroying_ = false;
  absl::Status end_status_;
  uint32_t tries_ = 0;  // attempts to reconnect in a row
  uint64_t give_up_ns_ = UINT64_MAX;
  uint64_t connected_at_ns_ = 0;
  engine::Timer retry_timer_;  // the pause before an attempt; during it, the end of max_total_ms
  absl::AnyInvocable<void(absl::Status)> on_connected_;
  absl::AnyInvocable<void(absl::Status)> on_ended_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CLIENT_H_
