// An RPC server: listens for connections and serves its programs on them.
#ifndef POLLUX_RPCRDMA_SERVER_H_
#define POLLUX_RPCRDMA_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cm/manager.h"
#include "oncrpc/call.h"
#include "rpcrdma/connection/connection.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/connection/message_demux.h"
#include "rpcrdma/connection/refusal_log.h"
#include "rpcrdma/requester/requester.h"
#include "rpcrdma/responder/buffer_pool.h"
#include "rpcrdma/responder/buffer_share.h"
#include "rpcrdma/responder/lost_replies.h"
#include "rpcrdma/responder/program.h"
#include "rpcrdma/responder/program_table.h"
#include "rpcrdma/responder/reply_cache.h"
#include "rpcrdma/responder/responder.h"
#include "rpcrdma/responder/stalled_clients.h"
#include "rpcrdma/wire/negotiated.h"
#include "stack/base/stats.h"
#include "stack/base/wakeup.h"
#include "stack/engine/loop/worker.h"

namespace pollux::rpcrdma {

struct ServerConfig {
  // Established ones, and ended ones of which a handler still holds a call.
  uint32_t max_connections = 1024;
  // Half-open connections (REP sent, no RTU yet), at least 1. At the limit, a new one replaces the
  // oldest of the address that has the most half-open connections (cm::Manager::SetMaxHalfOpen()).
  uint32_t max_half_open = 256;
  // The same per client address. 0: an address can open another connection while it has fewer than
  // are free, so the first address gets at most half of them.
  uint32_t max_connections_per_client = 0;
  uint32_t credits = 32;         // 1..256: maximum credits granted to each client
  uint32_t reverse_credits = 4;  // 1..256: maximum calls to each client. RFC 8167
  // Inline sizes in bytes, RFC 8797: 1,024..262,144, multiples of 1,024.
  uint32_t send_bytes = 4096;
  uint32_t receive_bytes = 4096;
  // Replies may invalidate memory that their calls offered. RFC 8797.
  bool remote_invalidation = true;
  // Buffers for the data of Read chunks and for long replies, at least 2. A call whose Read chunks
  // exceed one buffer is answered by ERR_CHUNK. A call that finds no free buffer, or whose client
  // uses its share of them (BufferShare), waits.
  uint32_t bulk_buffers = 64;
  uint32_t bulk_buffer_bytes = (1u << 20) + 4096;
  // The reply cache, for calls of procedures that are not idempotent; they run once. It holds calls
  // of all clients, including calls that still run and, while they run, those of procedures that
  // join. When it is full, the client with the most entries loses its oldest. `cached_reply_bytes`
  // limits the results of each entry, in bytes. Entries survive their connection, but not the
  // server.
  uint32_t cached_replies = 1024;
  uint32_t cached_reply_bytes = 1024;
  cm::ConnectionParam connection;  // private data is set by the server
};

// Runs as a poller of one worker, on which the CM manager must run too. All calls must be made, and
// all handlers and callbacks run, on that worker's core. Handlers may call any function except the
// destructor. If a device has several workers, a server on each of them at the same port forms one
// service; clients are distributed by address (cm::Placement::kByClient).
//
// A connection request allocates the queues and the receives for a first call; the buffers are
// allocated when the connection is established. When memory is short (MemoryReserve), connections
// are refused; if that does not help, calls wait.
class Server : public engine::Poller, private StatsProvider {
 public:
  // `worker` and `manager` are not owned and must outlive the server. InvalidArgument for settings
  // outside their limits.
  static absl::StatusOr<std::unique_ptr<Server>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const ServerConfig& config = {});
  // Ends every connection. No handler may hold a ReplyHandle any more.
  ~Server() override;

  // Registers a program. RFC 8166 section 6: InvalidArgument for a procedure without a binding.
  // AlreadyExists for a program and version that is registered.
  absl::Status RegisterProgram(Program program);
  // Listens for RDMA_PS_TCP connections at any address, and takes calls. AlreadyExists if the port
  // has a listener.
  absl::Status Listen(uint16_t port);

  // An optional observer is called when a connection is established and when it has ended.
  struct ConnectionInfo {
    uint64_t number = 0;  // CallView::connection: connections are numbered in order
    SocketAddress peer;
    Negotiated negotiated;
  };
  void SetObserver(absl::AnyInvocable<void(const ConnectionInfo&, bool established)> observer) {
    observer_ = std::move(observer);
  }

  // Sets a log for refused messages of clients: one line per connection and kind, with a count,
  // some time after the first. RefusalLog limits the lines per minute.
  void SetRefusalLog(RefusalLog::Sink sink) { refusal_log_.SetSink(std::move(sink)); }

  // Sets the credits that each client is granted from its next reply on: 1 to
  // ServerConfig::credits. Receives for the maximum stay posted, so that a grant may fall and rise.
  // RFC 8166 section 3.3.1
  void SetCredits(uint32_t credits);

  // Prepares calls to a client on the connection that it made (CallView::connection). The client
  // must expect them, which its protocol has to negotiate: RFC 8167 section 6. One program per
  // connection. The body of `credential` must outlive the connection. Errors: NotFound if the
  // connection is gone, AlreadyExists, InvalidArgument for an invalid binding or a credential
  // longer than kMaxAuthBytes.
  absl::Status OpenReverse(uint64_t connection, oncrpc::ProgramBinding binding,
                           const oncrpc::OpaqueAuth& credential = {});
  // See Requester::Call(). Call and reply must be Short Messages; InvalidArgument if they may be
  // longer. NotFound if the connection is gone or OpenReverse() was not called. A call that is
  // unfinished when the connection ends fails with Unavailable, since only the client can connect
  // again.
  absl::Status CallReverse(uint64_t connection, const oncrpc::CallRequest& request,
                           oncrpc::CallDone done);

  // Disconnects a client (CallView::connection) by a DREQ; no effect if it is not connected.
  void Disconnect(uint64_t connection);
  // Stops listening and takes no more calls: those that arrive wait until Shutdown() drops them,
  // and clients send them again when they have connected again. Call it before Shutdown() and wait
  // until calls_in_progress() is 0, or the replies of calls in progress are dropped as well.
  // Replies to CallReverse() are not taken either: wait for them first, or limit the wait.
  void StopTakingCalls();
  // Calls that were taken and whose replies have not reached their clients. Linear in the number of
  // connections.
  size_t calls_in_progress() const;
  // Stops listening and sends every client a DREQ. connections() falls to 0 as they reply.
  void Shutdown();
  size_t connections() const { return by_number_.size(); }
  const Counters& counters() const { return counters_; }

  bool Poll(uint64_t now_ns) override;

 private:
  struct Reverse {
    oncrpc::ProgramBinding binding;
    std::unique_ptr<Requester> requester;
    std::unique_ptr<MessageDemux> demux;
  };
  struct Peer {
    enum class State : uint8_t {
      kBinding,    // the queue pair is being moved to INIT
      kAccepting,  // REP sent; messages wait
      kConnected,
      kDisconnecting,  // DREQ sent
      kEnding,         // taken down at the next poll
      kEnded,          // taken down; a handler still holds a ReplyHandle
    };
    State state = State::kBinding;
    cm::Id* id = nullptr;
    ConnectionInfo info;
    std::unique_ptr<Connection> connection;
    std::unique_ptr<Responder> responder;  // once it is established
    std::unique_ptr<Reverse> reverse;
    bool established = false;
    bool counted = false;  // among those of its address
    bool lingers = false;  // ended, and counted because a handler holds a ReplyHandle
    bool asked = false;    // this side ended it

    // The peer can be deleted: it has ended, and no handler has a call of it.
    bool IsGone() const {
      return state == State::kEnded && (responder == nullptr || responder->idle());
    }
  };
  // Peers that are polled if one of them is awake, so that a turn need not look at every idle
  // connection.
  struct Group {
    explicit Group(Wakeup* server) : wakeup(server) {}
    Wakeup wakeup;
    std::vector<std::unique_ptr<Peer>> peers;
  };
  static constexpr size_t kPeersPerGroup = 64;
  // A client's address, as long as it has connections.
  struct Client {
    uint32_t peers = 0;
    uint32_t established = 0;
    uint32_t lingering = 0;
    std::shared_ptr<BufferShare> buffers;  // of all of them, once one was established
  };

  Server(engine::Worker* worker, cm::Manager* manager, const ServerConfig& config);
  bool Collect(const StatsQuery& query, Stats* stats) override;
  void OnEvent(const cm::Event& event);
  void OnConnectRequest(const cm::Event& event);
  absl::Status CheckRoom(const Gid& address) const;
  absl::Status Admit(const cm::Event& event);
  void Refuse(const SocketAddress& client, const absl::Status& why);
  void OnEstablished(Peer& peer);
  absl::Status Equip(Peer& peer);
  std::shared_ptr<BufferShare> ShareOf(const Gid& address);
  Group& GroupWithRoom();
  Peer* FindConnected(uint64_t number);
  bool PollGroup(Group& group, bool takes_calls);
  bool PollPeer(Peer& peer, bool takes_calls);
  void End(Peer& peer);
  // The peer no longer counts as established, and is taken down at the next poll.
  void BeginEnding(Peer& peer);
  void TakeDown(Peer& peer);
  void RemoveGone(Group& group);

  engine::Worker* worker_;
  cm::Manager* manager_;
  ServerConfig config_;
  Counters counters_;
  uint32_t credits_;  // currently granted
  ProgramTable programs_;
  BufferPool pool_;
  ReplyCache replies_;
  LostReplies lost_;
  StalledClients stalled_;
  RefusalLog refusal_log_;  // outlives the connections
  cm::Id* listener_ = nullptr;
  bool stopped_ = false;  // StopTakingCalls()
  uint64_t last_number_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<uint64_t, Peer*> by_number_;
  std::map<const cm::Id*, Peer*> by_id_;  // those that have not been taken down
  std::map<Gid, Client> clients_;
  size_t established_ = 0;
  size_t lingering_ = 0;
  absl::AnyInvocable<void(const ConnectionInfo&, bool)> observer_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_SERVER_H_
