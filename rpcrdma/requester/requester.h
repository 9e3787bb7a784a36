// The calling side. Calls wait for credit, keep their XID, and are sent again on the next
// connection when one is lost. Memory is offered for one call on one connection.
#ifndef POLLUX_RPCRDMA_REQUESTER_REQUESTER_H_
#define POLLUX_RPCRDMA_REQUESTER_REQUESTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "oncrpc/binding.h"
#include "oncrpc/call.h"
#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"
#include "rpcrdma/connection/connection.h"
#include "rpcrdma/connection/counters.h"
#include "rpcrdma/connection/free_list.h"
#include "rpcrdma/requester/call_plan.h"
#include "rpcrdma/wire/credits.h"
#include "rpcrdma/wire/header.h"
#include "rpcrdma/wire/negotiated.h"
#include "rpcrdma/wire/plain_message.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

struct RequesterConfig {
  // the most outstanding calls: requested from the server, and receives posted for them
  uint32_t credits = 32;
  uint32_t max_calls = 1024;  // outstanding and waiting calls together
  // A call fails when this many connections on which it was sent were lost. Connections that were
  // given up for silence do not count: their server is reachable and may still be running the call.
  uint32_t max_losses = 1;
  // A connection on which a call has had no reply for this long is given up, and the call is sent
  // again on the next one: servers do not answer calls that they have dropped. A quarter of this
  // time is enough while other calls cannot be sent because silent or abandoned calls hold all
  // credits. The server may just be slow: the call gets twice the time on each further connection,
  // up to 16 times the first one's. 0: never.
  uint64_t silence_ns = 0;
  // The number of calls that earlier requesters of the client made. Their CallIds are not reused.
  uint64_t earlier_calls = 0;
  oncrpc::OpaqueAuth credential;  // sent with every call; its body must outlive the requester
};

class Requester : public Connection::Role {
 public:
  // The pointers are not owned and must outlive this object.
  Requester(engine::Worker* worker, const oncrpc::ProgramBinding* binding,
            const RequesterConfig& config, Counters* counters);
  ~Requester() override;

  // Sends calls on `connection` from now on, with its own credits, sizes and keys. It must exist
  // until Detach(). Calls that were sent on an earlier connection are sent again in their original
  // order, except that silent ones come last: a server that is still running them would hold their
  // credit, and at first there is only one. Calls wait while there is no connection.
  void Attach(Connection* connection, const DirectionTerms& terms, SendBuffers buffers);
  // Call it when the connection's queue pair is closed. Calls that were sent on it wait for the
  // next one; a call that has lost max_losses connections ends with `why`.
  void Detach(const absl::Status& why);
  bool attached() const { return connection_ != nullptr; }
  // Since Attach().
  uint32_t replies_on_connection() const { return replies_on_connection_; }

  // Call it when the contents of the binding have changed, which is allowed while no call is in
  // progress.
  void Rebind();

  // `done` is called once, not during this call. ResourceExhausted at max_calls, or if the call's
  // memory cannot be offered now; InvalidArgument if the binding does not allow the call or a
  // buffer is too small for it; AlreadyExists if the header's XID cannot be used because of an
  // outstanding call (another XID may work); the status of FailAll() after that call. `id`, if not
  // null, receives the call's ID.
  absl::Status Call(const oncrpc::CallRequest& request, oncrpc::CallDone&& done,
                    oncrpc::CallId* id = nullptr);
  // Cancels a call: when this returns, the server cannot access its memory any more, and its
  // callback will not be called. Returns false if the call is done already. RFC 8166 section 4.4.1
  // and section 8.1.3
  bool Cancel(const oncrpc::CallId& id);
  // Ends every unfinished call with `status`. The queue pair must be closed.
  void FailAll(const absl::Status& status);
  // Sends the waiting calls that can be sent. Needed if the send queue is shared with a Responder:
  // OnSent() does not tell when that one's work requests make room.
  void Poll() { SendWaiting(); }

  // The number of calls made, including those of earlier requesters.
  uint64_t calls_made() const { return last_number_; }
  uint32_t outstanding() const { return window_.outstanding(); }
  uint32_t waiting() const { return waiting_count_; }
  const CreditWindow& window() const { return window_; }
  // The number of keys that the server may use now.
  uint32_t advertised_regions() const { return advertised_; }

  void OnMessage(const Connection::Arrival& arrival) override;
  bool Expects(uint32_t xid) const override { return FindXid(xid) != nullptr; }
  void OnSent(uint32_t cookie) override;
  void OnFailed(uint32_t /*cookie*/, ibv_wc_status /*status*/) override {}

 private:
  // The states of a call, in this order; it returns to kWaiting when its connection is lost.
  enum class State : uint8_t {
    kFree,
    kWaiting,    // for a connection, credit, a send buffer, or space in the send queue
    kSent,       // waits for the reply
    kAbandoned,  // ended for its caller; it still holds its credit and XID
  };
  // For the RPC header and the arguments of a long call, the items, the item buffers and the reply
  // buffer.
  static constexpr size_t kMaxRegions = 2 + 2 * oncrpc::kMaxItems + 1;
  static constexpr uint32_t kNoBuffer = UINT32_MAX;
  struct Slot {
    explicit Slot(Requester* owner) : requester(owner), timer(&Requester::OnTimeout, this) {}
    Requester* requester;
    State state = State::kFree;
    bool has_xid = false;
    bool queued = false;      // in waiting_: it was not sent on this connection
    bool has_chunks = false;  // according to its plan
    // its regions were invalidated here; the reply may still invalidate their keys
    bool withdrawn = false;
    uint32_t index = 0;
    uint32_t xid = 0;
    uint32_t sends = 0;
    uint32_t losses = 0;  // lost connections on which it was sent
    // Connections that were given up because it had no reply.
    uint32_t silences = 0;
    uint64_t sent_ns = 0;  // when it was sent last
    uint64_t number = 0;   // in the order in which the calls were made
    uint8_t region_count = 0;
    uint8_t write_chunk_count = 0;
    bool offered_reply = false;
    // of a long call: holds the RPC header for the server to read
    uint32_t header_buffer = kNoBuffer;
    CallPlan plan;
    oncrpc::CallDone done;
    engine::Timer timer;
    oncrpc::CallRequest request;
    // The offered chunks, for calls with chunks. A Write chunk of 0 bytes is an empty chunk.
    Segment reply_chunk;
    std::array<Segment, oncrpc::kMaxItems> write_chunks;
    std::array<memory::MemoryRegion, kMaxRegions> regions;
  };

  // How often per silence_ns the connection is checked for silence.
  static constexpr uint64_t kLooksPerSilence = 4;
  static constexpr uint32_t kMaxSilenceDoublings = 4;

  static void OnTimeout(void* slot, uint64_t now_ns);
  static void OnLook(void* requester, uint64_t now_ns);
  void ArmLook(uint64_t now_ns);
  // Whether calls wait because silent or abandoned calls hold all credits.
  bool IsChoked() const;
  // From making a call to its end: requester.cc.
  void SendWaiting() {
    while (waiting_count_ > 0 && MaySend()) SendFirstWaiting();
  }
  bool MaySend() const {
    return connection_ != nullptr && window_.CanSend() && !free_buffers_.empty() &&
           connection_->MaySend();
  }
  // For a call that plain_calls_ does not include.
  absl::Status PlanOther(const oncrpc::CallRequest& request, CallPlan* plan);
  absl::Status TooManyCalls() const;
  void SendFirstWaiting();
  // Returns an error if the call cannot be built; nothing was sent then.
  absl::Status SendCall(Slot& slot);
  void Abandon(Slot& slot, absl::Status status);
  // Counts a call that ends for its caller without a reply. The probe rpc_client_end reports it
  // only if it was sent, on whichever connection: no rpc_client_start has reported any other call.
  void CountUnanswered(const Slot& slot);
  void Finish(Slot& slot, absl::Status status, const oncrpc::Reply* reply) {
    Fence(slot);
    FinishFenced(slot, std::move(status), reply);
  }
  [[gnu::always_inline]] void FinishFenced(Slot& slot, absl::Status status,
                                           const oncrpc::Reply* reply) {
    slot.timer.Cancel();
    oncrpc::CallDone done = std::move(slot.done);
    const bool abandoned = slot.state == State::kAbandoned;
    Release(slot);
    if (!abandoned) done(std::move(status), reply);
  }
  // Frees the slot of a call whose callback was called or is about to be.
  void Release(Slot& slot) {
    slot.state = State::kFree;
    slot.queued = false;
    if (std::exchange(slot.has_xid, false)) PlaceOf(slot.xid) = nullptr;
    free_slots_.Give(slot.index);
  }
  void ReleaseBuffer(uint32_t buffer);
  void TakeXid(Slot& slot);
  Slot*& PlaceOf(uint32_t xid) { return by_xid_[xid & xid_mask_]; }
  // The RPC header that is sent with the call, and the terms that follow from it.
  oncrpc::CallHeader HeaderOf(const Slot& slot) const;
  CallTerms TermsOf(const oncrpc::CallRequest& request) const;
  PlainCall MakePlainCall() const;
  // Finds a call that was sent on this connection.
  Slot* FindXid(uint32_t xid) const;
  // The i-th waiting call.
  uint32_t& WaitingAt(uint32_t i) { return waiting_[(waiting_head_ + i) & (waiting_.size() - 1)]; }
  void Enqueue(Slot& slot);
  void Dequeue(const Slot& slot);
  // Building the message of a call: requester_message.cc.
  absl::Status BuildCall(Slot& slot, uint32_t buffer, size_t* bytes);
  absl::Status OfferReads(Slot& slot, uint32_t buffer, const oncrpc::CallHeader& call);
  absl::Status OfferWrites(Slot& slot);
  absl::Status Offer(Slot& slot, absl::Span<const uint8_t> memory, int access, Segment* segment);
  void Fence(Slot& slot);
  // For a call that ends before its reply: ends the server's access to its memory. The server may
  // still invalidate the keys.
  void Withdraw(Slot& slot);
  void GiveHeaderBufferBack(Slot& slot);
  // Handling a reply: requester_reply.cc. Whether `key`, which the peer has invalidated with a
  // reply to `slot`, was offered for that call.
  static bool MayInvalidate(const Slot& slot, uint32_t key);
  void TakeMessage(const Connection::Arrival& arrival);
  // Ends a call whose reply is invalid.
  void FailAnswered(Slot& slot, Refusal why, uint32_t credits);
  // Handles a successful reply without chunks to a call without chunks. Returns false, without any
  // effect, if the message is not such a reply.
  bool TakePlainReply(const Connection::Arrival& arrival);
  void Count(Refusal what) { connection_->refusals().Count(what, counters_); }
  static bool CheckChunks(const Slot& slot, const Header& header);
  bool TakeReply(Slot& slot, const Header& header, absl::Span<const uint8_t> payload,
                 oncrpc::Reply* reply);

  engine::Worker* worker_;
  const oncrpc::ProgramBinding* binding_;
  RequesterConfig config_;
  Counters* counters_;
  Connection* connection_ = nullptr;
  CallTerms terms_;
  PlainCalls plain_calls_;  // under terms_; this and plain_call_ have copies of the binding
  PlainCall plain_call_;
  bool invalidatable_ = false;
  bool given_up_ = false;  // the connection was given up for silence
  CreditWindow window_;
  uint32_t replies_on_connection_ = 0;
  absl::Status down_;  // set by FailAll(): the error of further calls
  uint32_t next_xid_;
  uint64_t last_number_;
  uint32_t advertised_ = 0;
  // Scratch memory: the header of the call being built, the reply being handled if it is a plain
  // one, and the results of any other.
  Header header_;
  oncrpc::Reply plain_reply_;
  std::array<oncrpc::ReducedItem, oncrpc::kMaxItems> results_;
  std::vector<std::unique_ptr<Slot>> slots_;
  FreeList free_slots_;
  FreeList free_buffers_;  // send buffers that belong to the Requester
  // the users of each buffer: its SEND, and the server that reads a long call
  std::vector<uint8_t> buffer_uses_;
  // Calls by the low bits of their XIDs. An XID whose place is occupied is not used.
  uint32_t xid_mask_;
  std::unique_ptr<Slot*[]> by_xid_;
  std::vector<uint32_t> waiting_;  // ring for max_calls, rounded up to a power of two
  uint32_t waiting_head_ = 0;      // not reduced modulo the ring's size
  uint32_t waiting_count_ = 0;
  engine::Timer look_timer_;  // armed while attached
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_REQUESTER_REQUESTER_H_
