// An RPC server: listens for connections and serves its programs on them.
#ifndef POLLUX_RPCRDMA_SERVER_H_
#define POLLUX_RPCRDMA_SERVER_H_

#include <cstdint>
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
#include "stack/engine/loop/worker.h"

namespace pollux::rpcrdma {

struct ServerConfig {
  // Established ones.
  uint32_t max_connections = 1024;
  // Those that are accepted and not established yet, at least 1. One more takes the place of the
  // oldest of the address that has most (cm::Manager::SetMaxHalfOpen).
  uint32_t max_half_open = 256;
  // Established ones of one address. 0: as long as it has fewer than
  // are left for all, which is half of them for the first that comes and leaves room for the next.
  uint32_t max_connections_per_client = 0;
  uint32_t credits = 32;         // 1..256: granted to each client at most
  uint32_t reverse_credits = 4;  // 1..256: calls to each client at most. RFC 8167
  uint32_t send_bytes = 4096;    // inline sizes, RFC 8797: 1,024..262,144, multiples of 1,024
  uint32_t receive_bytes = 4096;
  bool remote_invalidation = true;  // of what calls offered, by the reply. RFC 8797
  // Read chunks are pulled into these, long replies go out from them; a call with more Read chunk
  // bytes than one holds is answered ERR_CHUNK, one that finds none free waits, and so does one
  // whose client has its share of them (BufferShare).
  uint32_t bulk_buffers = 64;
  uint32_t bulk_buffer_bytes = (1u << 20) + 4096;
  // Calls of procedures that are not idempotent, of all clients, that are remembered so that they
  // run once (and, while they run, those that are joined), the client with the most of them giving
  // up its oldest for others; and the bytes of results that each may have to be answered again.
  // They outlive connections, not the server.
  uint32_t cached_replies = 1024;
  uint32_t cached_reply_bytes = 1024;
  cm::ConnectionParam connection;  // private data is filled in
};

// A connection that is asked for has its queues and receives for the first call; its buffers are
// made when it is established. Where memory is short (MemoryReserve) connections are refused, and
// if that does not help, calls wait.
//
// Lives on one worker, on which the CM manager lives too; every call is made, every handler and
// callback runs on its core. Handlers may call anything but the destructor. Where a device has
// several workers, a server on each of them at one port makes one service: clients are divided
// among them by address (cm::Placement::kByClient).
class Server : public engine::Poller, private StatsProvider {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Create(engine::Worker* worker,
                                                        cm::Manager* manager,
                                                        const ServerConfig& config = {});
  // Ends every connection. No handler may hold a reply any more.
  ~Server() override;

  // RFC 8166 section 6: a procedure without a binding is refused (InvalidArgument).
  absl::Status RegisterProgram(Program program);
  // AlreadyExists when the port has a listener.
  absl::Status Listen(uint16_t port);

  // Told of every connection: when established, and when it ended. Optional.
  struct ConnectionInfo {
    uint64_t number = 0;  // CallView::connection: they are counted as they come
    SocketAddress peer;
    Negotiated negotiated;
  };
  void SetObserver(absl::AnyInvocable<void(const ConnectionInfo&, bool established)> observer) {
    observer_ = std::move(observer);
  }

  // Told of what clients sent that was refused: once a connection and kind, with how often, some
  // time after the first; so many lines a minute as RefusalLog has it.
  void SetRefusalLog(RefusalLog::Sink sink) { refusal_log_.SetSink(std::move(sink)); }

  // What each client is granted from its next reply on: 1 to ServerConfig::credits. Receives for
  // all of those stay posted, so that a grant may rise and fall. RFC 8166 section 3.3.1
  void SetCredits(uint32_t credits);

  // Calls to a client by the connection that it made (CallView::connection), as far as it is
  // prepared for them, which its protocol must have said: RFC 8167 section 6. One program a
  // connection. Errors: NotFound when the connection is gone, AlreadyExists, InvalidArgument for a
  // binding that does not hold or a credential longer than kMaxAuthBytes. `credential`'s body
  // outlives the connection.
  absl::Status OpenReverse(uint64_t connection, oncrpc::ProgramBinding binding,
                           const oncrpc::OpaqueAuth& credential = {});
  // See Requester::Call; call and reply are Short Messages (InvalidArgument when they may not be).
  // NotFound when the connection is gone or OpenReverse() was not called. A call that is not done
  // when the connection ends, ends with Unavailable: only the client could make another.
  absl::Status CallReverse(uint64_t connection, const oncrpc::CallRequest& request,
                           oncrpc::CallDone done);

  // Disconnects (DREQ) a client (CallView::connection), if it is connected.
  void Disconnect(uint64_t connection);
  // Stops listening and disconnects (DREQ) every client; connections() falls to 0 as they answer.
  void Shutdown();
  size_t connections() const { return peers_.size(); }
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
      kBinding,    // the queue pair goes to INIT
      kAccepting,  // REP sent; what comes waits
      kConnected,
      kDisconnecting,  // DREQ sent
      kEnding,         // to be taken down at the next poll
      kEnded,          // taken down; a handler still holds a reply
    };
    State state = State::kBinding;
    cm::Id* id = nullptr;
    ConnectionInfo info;
    std::unique_ptr<Connection> connection;
    // Once it is established:
    std::shared_ptr<BufferShare> buffers;  // of all connections from its address
    std::unique_ptr<Responder> responder;
    std::unique_ptr<Reverse> reverse;
    bool established = false;
    bool asked = false;  // we ended it

    // Nobody holds anything of it any more.
    bool IsGone() const {
      return state == State::kEnded && (responder == nullptr || responder->idle());
    }
    bool IsEstablished() const {
      return established && state != State::kEnding && state != State::kEnded;
    }
  };

  Server(engine::Worker* worker, cm::Manager* manager, const ServerConfig& config);
  bool Collect(const StatsQuery& query, Stats* stats) override;
  void OnEvent(const cm::Event& event);
  void OnConnectRequest(const cm::Event& event);
  size_t Established() const;
  absl::Status CheckRoom(const Gid& client) const;
  absl::Status Admit(const cm::Event& event);
  void Refuse(const SocketAddress& client, const absl::Status& why);
  void OnEstablished(Peer& peer);
  absl::Status Equip(Peer& peer);
  std::shared_ptr<BufferShare> ShareOf(const Gid& client);
  Peer* Find(const cm::Id* id);
  Peer* FindConnected(uint64_t number);
  bool PollPeer(Peer& peer, bool takes_calls);
  void End(Peer& peer);
  void TakeDown(Peer& peer);

  engine::Worker* worker_;
  cm::Manager* manager_;
  ServerConfig config_;
  Counters counters_;
  uint32_t credits_;  // granted
  ProgramTable programs_;
  BufferPool pool_;
  ReplyCache replies_;
  LostReplies lost_;
  StalledClients stalled_;
  RefusalLog refusal_log_;  // outlives the connections
  cm::Id* listener_ = nullptr;
  uint64_t last_number_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  absl::AnyInvocable<void(const ConnectionInfo&, bool)> observer_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_SERVER_H_
