// The answering side of one connection: calls checked, Read chunks pulled, handlers called, results
// pushed, replies sent.
#ifndef POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_
#define POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpcrdma/connection/connection.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/responder/buffer_share.h"
#include "rpcrdma/responder/fifo.h"
#include "rpcrdma/responder/lost_replies.h"
#include "rpcrdma/responder/program.h"
#include "rpcrdma/responder/program_table.h"
#include "rpcrdma/responder/pull_plan.h"
#include "rpcrdma/responder/reply_cache.h"
#include "rpcrdma/responder/stalled_clients.h"
#include "rpcrdma/wire/header.h"
#include "rpcrdma/wire/negotiated.h"

namespace pollux::rpcrdma {

// What the connections of a server share.
struct ServiceState {
  ProgramTable* programs = nullptr;
  ReplyCache* replies = nullptr;
  LostReplies* lost = nullptr;
  StalledClients* stalled = nullptr;  // where calls may have chunks
  // Calls that each client may have outstanding, at most what a connection has receives for. May
  // change at any time. RFC 8166 section 3.3.1
  const uint32_t* credits = nullptr;
  Counters* counters = nullptr;
};

class Responder : public Connection::Role {
 public:
  // A connection on which nothing that was posted has been done for so long is given up: its client
  // takes no replies, and what its calls hold is the other clients' too. Retries alone do not end
  // it: the client may have asked for RNR retries without end. An honest client has a receive for
  // each reply (RFC 8166 section 3.3.1), so only the network delays it, and with CM's usual
  // time-outs RC gives up on that sooner.
  static constexpr uint64_t kStallNs = 30'000'000'000;
  // The same of one that holds buffers for which another client waits: longer than retries over a
  // wire that loses much take. Whoever holds some for so long has a narrow share for a time.
  static constexpr uint64_t kWantedStallNs = 5'000'000'000;
  // Pieces of results that are on their way. With 64 KiB each, as the file service gives them, what
  // a fast network carries between a WRITE and its acknowledgement, and no more than a core's
  // second cache holds; pollux nfsd gives 128 KiB and more, for which the third must do.
  static constexpr uint32_t kMaxPieces = 8;

  // Whose calls they are.
  struct Caller {
    Gid address;
    uint16_t port = 0;        // for CallView, as
    uint64_t connection = 0;  // this
    // Of all its connections. Null: no call may have chunks. RFC 8167 section 5.3
    std::shared_ptr<BufferShare> buffers;
  };
  // All outlive this. `buffers`: one for each call that is at work.
  Responder(Connection* connection, const ServiceState& service, const Caller& caller,
            SendBuffers buffers);
  ~Responder() override;

  // Registers the buffers' pool, if there is one, in the connection's protection domain.
  absl::Status Init();
  // Before the first message.
  void SetTerms(const DirectionTerms& terms) { terms_ = terms; }

  // Of what handlers copied.
  void CountCopied(uint64_t bytes) { service_.counters->bytes_copied += bytes; }
  // Goes on with calls that waited for buffers or room. True when one went on.
  bool Poll() { return HasWork() && Work(); }
  bool HasWork() const {
    return in_flight_ != 0 || !wait_room_.empty() || !wait_buffers_.empty() || !backlog_.empty();
  }
  // The queue pair is closed: gives back whatever no handler holds. Replies are dropped from now
  // on; those of calls that must not run twice are kept for when they come again. A handler's call
  // keeps what was pulled for it.
  void Abort();
  // No handler holds a call any more (after Abort: this may be destroyed).
  bool idle() const { return dispatched_ == 0; }

  void OnMessage(const Connection::Arrival& arrival) override;
  void OnSent(uint32_t cookie) override;
  void OnFailed(uint32_t cookie, ibv_wc_status status) override;

 private:
  friend class ReplyHandle;
  // Of a call, in this order.
  enum class State : uint8_t {
    kFree,
    kWaitBuffers,  // for pool buffers, and room in the send queue for the READs
    kPulling,      // READs in flight
    kJoined,       // the same call runs already: for its reply
    kDispatched,   // the handler has it
    kWaitRoom,     // the reply is built, the send queue has no room
    kReplying,     // WRITEs and SEND in flight
  };
  static constexpr uint32_t kNotCached = UINT32_MAX;
  struct Slot {
    State state = State::kFree;
    bool has_receive = false;
    bool has_chunks = false;
    bool may_reduce = true;  // see ForbidsReduction()
    bool joins = false;      // see ProcedureBinding::joins
    uint32_t receive = 0;
    absl::Span<const uint8_t> message;  // in the receive buffer
    uint32_t xid = 0;
    uint32_t grant = 1;
    uint32_t cached = kNotCached;   // the call's entry in the reply cache
    uint32_t invalidate = 0;        // the key that the reply takes away; 0: none
    size_t payload_offset = 0;      // in the message
    uint8_t* pulled = nullptr;      // pool buffer, filled as the PullPlan says
    uint8_t* long_reply = nullptr;  // pool buffer, taken when a Reply chunk is offered
    // Of the first result, what went ahead of the reply.
    uint64_t ahead_bytes = 0;
    bool ahead_fits = true;  // and all of it was written
    uint32_t pieces = 0;     // of it, on their way
    // The reply
    uint32_t reply_bytes = 0;  // of the message in the send buffer
    uint32_t item_count = 0;
    uint32_t in_stream = 0;  // a bit for each item that has no Write chunk
    // kMaxItems of each, the slot's for good.
    oncrpc::ReducedItem* reduced = nullptr;
    ResultItem* items = nullptr;
    memory::MemoryRegion* item_regions = nullptr;
  };

  // On its way; the connection's, in the order in which they are done.
  struct Piece {
    uint32_t slot = 0;
    memory::MemoryRegion region;
    absl::AnyInvocable<void()> release;
  };

  // How a call is taken: responder.cc.
  void Accept(const Connection::Arrival& arrival);
  // The same of a message that IsPlainMessage().
  void AcceptPlain(const Connection::Arrival& arrival);
  // The number of a free slot, which is the call's from now on.
  uint32_t TakeSlot(const Connection::Arrival& arrival, uint32_t xid, uint32_t credits,
                    size_t header_bytes);
  // Counts the call, and refuses one whose reply is known to be lost.
  bool IsWelcome(uint32_t index);
  // As its message alone tells: of a long call only the XID.
  CallKey KeyOf(const Slot& slot) const;
  void Discard(const Connection::Arrival& arrival, Refusal why);
  void Count(Refusal what) { connection_->refusals().Count(what, service_.counters); }
  // Into plan_. False when the call asks for too much.
  bool MayPull(const Header& header);
  // Whether a message can hold the chunk lists that the reply brings back, and what is always in
  // it.
  bool MayAnswer(const Header& header) const;
  // Reads the call's header again, into header_ and plan_.
  void Plan(const Slot& slot);
  // `chunks`: the call's, and plan_ is too.
  bool TryPull(uint32_t index, const ChunkLists& chunks);
  // plan_ is the call's.
  void Dispatch(uint32_t index);
  // Whose call it is, once its Payload stream is here; a handler of null: it was refused, and is
  // answered.
  ProgramTable::Found Examine(uint32_t index, absl::Span<const uint8_t> payload, CallView* call);
  bool CheckEligible(const oncrpc::CallHeader& call, size_t rpc_bytes,
                     const oncrpc::ProcedureBinding& binding) const;
  // The pulled items as a handler sees them.
  absl::Span<const oncrpc::ReducedItem> Items(const Slot& slot, size_t rpc_bytes) const;
  // Whether the call is to be run; else it is dealt with.
  bool IsFirst(uint32_t index, const CallView& call);
  void Replay(uint32_t index, uint32_t entry);
  uint32_t BufferOf(uint32_t index) const { return buffers_.first + index; }
  void GiveReceiveBack(Slot& slot) {
    if (slot.has_receive) connection_->Repost(slot.receive);
    slot.has_receive = false;
  }
  // A buffer of the pool, or null.
  void GiveBack(uint8_t*& buffer);
  void Free(uint32_t index);
  void WatchStall();
  bool Work();

  // How it is answered: responder_reply.cc.
  void SendError(uint32_t index, ErrorCode code, uint32_t version = kVersion);
  // From a handler, by its handle.
  void Reply(uint32_t index, oncrpc::ReplyHeader reply, absl::Span<const uint8_t> results,
             absl::Span<ResultItem> items);
  // The same of a success without items.
  void ReplyPlainly(uint32_t index, absl::Span<const uint8_t> results);
  // Takes the items; false when they are too many or out of order.
  static bool TakeItems(Slot& slot, absl::Span<ResultItem> items, size_t result_bytes);
  void SendReply(uint32_t index, const oncrpc::ReplyHeader& reply,
                 absl::Span<const uint8_t> results);
  bool BuildPlainReply(uint32_t index, absl::Span<const uint8_t> results);
  bool BuildReply(uint32_t index, const oncrpc::ReplyHeader& reply,
                  absl::Span<const uint8_t> results);
  static bool PlaceItems(Slot& slot, ChunkLists& chunks, uint64_t* bytes);
  static size_t EmitPayload(const Slot& slot, const oncrpc::ReplyHeader& reply,
                            absl::Span<const uint8_t> results, absl::Span<uint8_t> out);
  void ReleaseItems(Slot& slot);
  void Finish(uint32_t index);
  bool TryPost(uint32_t index);
  bool TryPostChunks(uint32_t index);
  bool RegisterItems(Slot& slot, const ChunkLists& chunks);
  void PostReply(uint32_t index, bool hurried);
  // Calls may soon wait for slots.
  bool IsShortOfSlots() const { return free_slots_.size() * 2 < slots_.size(); }
  // Into a chunk, behind the first `at` bytes of it; all of it fits. `told`: of the last WRITE.
  void WriteOut(uint32_t index, Connection::Local from, absl::Span<const Segment> to, uint64_t at,
                bool told);

  // What goes ahead of the reply: responder_pieces.cc.
  uint64_t PieceRoom(uint32_t index);
  bool client_is_gone() const { return aborted_ || connection_->broken(); }
  bool CanWritePiece() const;
  void WritePiece(uint32_t index, ResultPiece piece);
  // False: it is not written.
  bool TryWritePiece(uint32_t index, ResultPiece& piece);
  // The oldest is done, or never will be.
  void ReleasePiece();

  void OnPosted() {
    if (in_flight_++ == 0) progress_ns_ = connection_->worker()->now_ns();
  }

  Connection* connection_;
  ServiceState service_;
  Caller caller_;
  SendBuffers buffers_;
  DirectionTerms terms_;
  memory::MemoryRegion pool_region_;
  bool aborted_ = false;
  uint32_t dispatched_ = 0;
  uint32_t in_flight_ = 0;       // slots with something posted, and pieces
  uint64_t progress_ns_ = 0;     // when the oldest of it became the oldest
  uint64_t short_since_ns_ = 0;  // a reply waits for regions since then; 0: none does
  // Scratch: of the message in hand.
  std::unique_ptr<Header> header_;
  PullPlan plan_;
  // kMaxItems for each slot.
  std::unique_ptr<oncrpc::ReducedItem[]> reduced_;
  std::unique_ptr<ResultItem[]> items_;
  std::unique_ptr<memory::MemoryRegion[]> item_regions_;
  std::vector<Slot> slots_;  // one a send buffer
  std::vector<uint32_t> free_slots_;
  // First come, first served; bounded by the number of receives and of slots.
  Fifo<Connection::Arrival> backlog_;  // no slot
  Fifo<uint32_t> wait_buffers_;
  Fifo<uint32_t> wait_room_;
  Fifo<Piece> pieces_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_
