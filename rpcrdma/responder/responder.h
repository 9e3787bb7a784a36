// The answering side of one connection: checks calls, reads Read chunks, calls handlers, writes
// results to Write chunks, and sends replies.
#ifndef POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_
#define POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpcrdma/connection/connection.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/connection/free_list.h"
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
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

// State shared by the connections of a server.
struct ServiceState {
  ProgramTable* programs = nullptr;
  ReplyCache* replies = nullptr;
  LostReplies* lost = nullptr;
  StalledClients* stalled = nullptr;  // null if calls may not have chunks
  // The most calls that each client may have outstanding; at most the number of receives of a
  // connection. May change at any time. RFC 8166 section 3.3.1
  const uint32_t* credits = nullptr;
  Counters* counters = nullptr;
};

class Responder : public Connection::Role {
 public:
  // A connection on which nothing has completed for this long, although something is posted, is
  // ended: its client takes no replies, and its calls hold buffers that other clients need. Retries
  // alone may not end it, because the client may have requested unlimited RNR retries. A correct
  // client has a receive for each reply (RFC 8166 section 3.3.1), so only the network can delay it,
  // and with CM's default time-outs RC gives up sooner.
  static constexpr uint64_t kStallNs = 30'000'000'000;
  // The same for a connection that holds buffers for which another client waits; it is longer than
  // retries on a very lossy network take. A client that holds buffers for this long has a narrow
  // share for a time.
  static constexpr uint64_t kWantedStallNs = 5'000'000'000;
  // The most pieces of results in flight. With 64 KiB each, as in the file service, they cover what
  // a fast network carries between a WRITE and its acknowledgement, and fit into a core's
  // second-level cache. The pieces of pollux nfsd (128 KiB and more) need the third-level cache.
  static constexpr uint32_t kMaxPieces = 8;

  // The client that makes the calls.
  struct Caller {
    Gid address;
    uint16_t port = 0;        // for CallView
    uint64_t connection = 0;  // for CallView
    // The share of the client with all its connections. Null: calls may not have chunks. RFC 8167
    // section 5.3
    std::shared_ptr<BufferShare> buffers;
  };
  // The pointers must outlive this object. `buffers`: one for each call in progress.
  Responder(Connection* connection, const ServiceState& service, const Caller& caller,
            SendBuffers buffers);
  ~Responder() override;

  // Registers the buffers' pool, if there is one, in the connection's protection domain.
  absl::Status Init();
  // Call it before the first message.
  void SetTerms(const DirectionTerms& terms) { terms_ = terms; }

  // Counts bytes that handlers have copied.
  void CountCopied(uint64_t bytes) { service_.counters->bytes_copied += bytes; }
  // Continues calls that wait for buffers or for space in the send queue. Returns true if any
  // continued.
  bool Poll() {
    // Replies in flight need attention only after the connection has stalled.
    if (!HasWork()) [[likely]]
      return false;
    return Work();
  }
  // Whether Poll() must be called although no completion has come.
  bool HasWork() const {
    return !wait_room_.empty() || !wait_buffers_.empty() || !backlog_.empty() || MayBeStalled();
  }
  // Call it when the queue pair is closed. Releases everything that no handler is using; a call
  // that a handler has keeps its data. Replies are dropped from now on, but the reply cache keeps
  // those of calls that must not run twice.
  void Abort();
  // Calls that were taken and whose replies have not reached the client.
  size_t calls() const { return buffers_.count - free_slots_.size(); }
  // No handler has a call any more. After Abort(), this object may then be destroyed.
  bool idle() const { return dispatched_ == 0; }

  void OnMessage(const Connection::Arrival& arrival) override;
  void OnSent(uint32_t cookie) override;
  void OnFailed(uint32_t cookie, ibv_wc_status status) override;

 private:
  friend class ReplyHandle;
  // The states of a call, in this order.
  enum class State : uint8_t {
    kFree,
    kWaitBuffers,  // for pool buffers, and for space in the send queue for the READs
    kPulling,      // READs in flight
    kJoined,       // waits for the reply of the same call, which is running
    kDispatched,   // the handler has it
    kWaitRoom,     // the reply is built, but the send queue is full
    kReplying,     // WRITEs and SEND in flight
    // the same for a reply that holds nothing but its slot
    kReplyingPlainly,
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
    uint64_t arrived_ns = 0;
    uint32_t xid = 0;
    uint32_t grant = 1;
    uint32_t cached = kNotCached;   // the call's entry in the reply cache
    uint32_t invalidate = 0;        // the key that the reply invalidates; 0: none
    size_t payload_offset = 0;      // in the message
    uint8_t* pulled = nullptr;      // pool buffer, filled according to the PullPlan
    uint8_t* long_reply = nullptr;  // pool buffer, taken when a Reply chunk is offered
    // The bytes of the first result that were sent before the reply.
    uint64_t ahead_bytes = 0;
    bool ahead_fits = true;  // false: a piece could not be written
    uint32_t pieces = 0;     // of the first result, in flight
    // The reply:
    uint32_t reply_bytes = 0;  // of the message in the send buffer
    uint32_t item_count = 0;
    uint32_t in_stream = 0;  // one bit for each item without a Write chunk
    // Arrays of kMaxItems each, which belong to the slot.
    oncrpc::ReducedItem* reduced = nullptr;
    ResultItem* items = nullptr;
    memory::MemoryRegion* item_regions = nullptr;
  };

  // A piece in flight. Pieces of a connection complete in order.
  struct Piece {
    uint32_t slot = 0;
    memory::MemoryRegion region;
    absl::AnyInvocable<void()> release;
  };

  // Receiving a call: responder.cc.
  void Accept(const Connection::Arrival& arrival) {
    if (arrival.plain && arrival.is_directed) [[likely]]
      return AcceptPlain(arrival);
    AcceptAny(arrival);
  }
  // AcceptPlain() takes messages for which IsPlainMessage() is true, AcceptAny() takes any.
  void AcceptPlain(const Connection::Arrival& arrival);
  void AcceptAny(const Connection::Arrival& arrival);
  // Allocates a slot to the call and returns its number.
  uint32_t TakeSlot(const Connection::Arrival& arrival, uint32_t xid, uint32_t credits,
                    size_t header_bytes);
  // Counts the call. Refuses it and returns false if its reply is in LostReplies.
  bool IsWelcome(uint32_t index);
  // The key as far as the message contains it; for a long call, only the XID.
  CallKey KeyOf(const Slot& slot) const;
  void Discard(const Connection::Arrival& arrival, Refusal why);
  void Count(Refusal what) { connection_->refusals().Count(what, service_.counters); }
  // Fills plan_. Returns false if the Read list is invalid or too large.
  bool MayPull(const Header& header);
  // Whether a message is large enough for the reply's chunk lists and RPC header.
  bool MayAnswer(const Header& header) const;
  // Parses the call's header again, into header_ and plan_.
  void Plan(const Slot& slot);
  // `chunks` and plan_ must be those of the call.
  bool TryPull(uint32_t index, const ChunkLists& chunks);
  // Checks the call and calls its handler, or refuses it. plan_ must be that of the call.
  void Dispatch(uint32_t index);
  // The same, inlined for the most frequent calls.
  void Run(uint32_t index);
  // Parses and checks the call's Payload stream and finds its handler. If the handler is null, the
  // call was refused and answered.
  ProgramTable::Target Examine(uint32_t index, absl::Span<const uint8_t> payload, CallView* call);
  bool CheckEligible(const oncrpc::CallHeader& call, size_t rpc_bytes,
                     const oncrpc::ProcedureBinding& binding) const;
  // The items that were read, in the form that handlers get.
  absl::Span<const oncrpc::ReducedItem> Items(const Slot& slot, size_t rpc_bytes) const;
  // Whether the call must be run. If not, it has been joined or answered.
  bool IsFirst(uint32_t index, const CallView& call);
  void Replay(uint32_t index, uint32_t entry);
  uint32_t BufferOf(uint32_t index) const { return buffers_.first + index; }
  uint8_t* SendBufferOf(uint32_t index) { return connection_->send_buffer(BufferOf(index)).data(); }
  void GiveReceiveBack(Slot& slot) {
    if (slot.has_receive) connection_->Repost(slot.receive);
    slot.has_receive = false;
  }
  // `buffer` may be null.
  void GiveBack(uint8_t*& buffer);
  [[gnu::always_inline]] void Free(uint32_t index) {
    Slot& slot = slots_[index];
    if (slot.state == State::kJoined) service_.replies->Leave(slot.cached, {this, index});
    slot.cached = kNotCached;
    GiveReceiveBack(slot);
    if (slot.has_chunks) {
      GiveBack(slot.pulled);
      GiveBack(slot.long_reply);
      slot.ahead_bytes = 0;
      slot.ahead_fits = true;
    }
    slot.state = State::kFree;
    if (slot.item_count > 0) ReleaseItems(slot);
    free_slots_.Give(index);
  }
  bool MayBeStalled() const {
    return in_flight_ != 0 && connection_->worker()->now_ns() - progress_ns_ > kWantedStallNs;
  }
  void WatchStall();
  void OnOtherMessage(const Connection::Arrival& arrival);
  void OnOtherSent(uint32_t index);
  static void OnStallTimer(void* responder, uint64_t now_ns);
  bool Work();

  // Sending the reply: responder_reply.cc.
  void SendError(uint32_t index, ErrorCode code, uint32_t version = kVersion);
  // The reply of a handler, through its ReplyHandle.
  void Reply(uint32_t index, oncrpc::ReplyHeader reply, absl::Span<const uint8_t> results,
             absl::Span<ResultItem> items);
  // The same for success without items.
  void ReplyPlainly(uint32_t index, absl::Span<const uint8_t> results);
  // Moves the items to the slot. Returns false if there are too many or if they are out of order.
  static bool TakeItems(Slot& slot, absl::Span<ResultItem> items, size_t result_bytes);
  void SendReply(uint32_t index, const oncrpc::ReplyHeader& reply,
                 absl::Span<const uint8_t> results);
  // `message` is the slot's send buffer.
  bool BuildPlainReply(uint32_t index, absl::Span<const uint8_t> results, uint8_t* message);
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
  // Whether calls may soon have to wait for slots.
  bool IsShortOfSlots() const { return free_slots_.size() * 2 < buffers_.count; }
  // Writes to a chunk, starting at offset `at`; the data must fit. `told`: report the completion of
  // the last WRITE.
  void WriteOut(uint32_t index, Connection::Local from, absl::Span<const Segment> to, uint64_t at,
                bool told);

  // Pieces that are sent before the reply: responder_pieces.cc.
  uint64_t PieceRoom(uint32_t index);
  bool client_is_gone() const { return aborted_ || connection_->broken(); }
  bool CanWritePiece() const;
  void WritePiece(uint32_t index, ResultPiece piece);
  // Returns false if it was not written.
  bool TryWritePiece(uint32_t index, ResultPiece& piece);
  // Releases the oldest piece, which has completed or never will.
  void ReleasePiece();

  void CountReply(const Slot& slot) {
    ++service_.counters->replies_sent;
    service_.counters->call_times.Count(connection_->worker()->now_ns() - slot.arrived_ns);
  }
  void OnPosted() {
    if (in_flight_++ != 0) return;
    progress_ns_ = connection_->worker()->now_ns();
    if (!stall_timer_.armed()) [[unlikely]]
      OnStallTimer(this, progress_ns_);
  }

  Connection* connection_;
  ServiceState service_;
  Caller caller_;
  SendBuffers buffers_;
  DirectionTerms terms_;
  memory::MemoryRegion pool_region_;
  bool aborted_ = false;
  uint32_t dispatched_ = 0;
  uint32_t in_flight_ = 0;  // slots with posted work requests, and pieces
  // the time of the last completion or, if later, of the oldest post in flight
  uint64_t progress_ns_ = 0;
  engine::Timer stall_timer_;    // armed while anything is in flight; wakes the connection
  uint64_t short_since_ns_ = 0;  // when a reply started to wait for regions; 0: none waits
  // Scratch memory for the current message.
  std::unique_ptr<Header> header_;
  PullPlan plan_;
  // Arrays of kMaxItems for each slot.
  std::unique_ptr<oncrpc::ReducedItem[]> reduced_;
  std::unique_ptr<ResultItem[]> items_;
  std::unique_ptr<memory::MemoryRegion[]> item_regions_;
  std::vector<Slot> slots_;  // one per send buffer
  FreeList free_slots_;
  // Served in order of arrival; bounded by the numbers of receives and of slots.
  Fifo<Connection::Arrival> backlog_;  // wait for a slot
  Fifo<uint32_t> wait_buffers_;
  Fifo<uint32_t> wait_room_;
  Fifo<Piece> pieces_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_RESPONDER_H_
