// The calling side: calls wait for credit, travel under an XID that stays theirs, and are sent
// again on the next connection when one is lost. Memory is offered for one call on one connection.
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
#include "rpcrdma/requester/call_plan.h"
#include "rpcrdma/wire/credits.h"
#include "rpcrdma/wire/header.h"
#include "rpcrdma/wire/negotiated.h"
#include "rpcrdma/wire/plain_message.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

struct RequesterConfig {
  uint32_t credits = 32;      // calls outstanding at most: requested, and receives posted for
  uint32_t max_calls = 1024;  // outstanding and waiting together
  // A call fails with the loss of so many connections that it was sent on. Those that are given up
  // for silence are none of them: their server is there, and may be at work on it.
  uint32_t max_losses = 1;
  // A connection on which a call has had no answer for so long is given up, for what is to be sent
  // again on the next: servers answer no call that they have dropped. After a quarter of it when
  // other calls find all credit taken by such calls, or by calls that nobody waits for any more.
  // 0: never.
  uint64_t silence_ns = 0;
  oncrpc::OpaqueAuth credential;  // sent with every call; its body outlives the requester
};

class Requester : public Connection::Role {
 public:
  // All outlive this.
  Requester(engine::Worker* worker, const oncrpc::ProgramBinding* binding,
            const RequesterConfig& config, Counters* counters);
  ~Requester() override;

  // From now on calls travel on `connection`, which outlives this or Detach(), by its own credits,
  // sizes and keys; those that were sent on another are sent again, in the order in which they were
  // made, but for those without an answer for silence_ns: a server that has them at work already
  // keeps their credit, the first of which is the only one. Without a connection calls wait.
  void Attach(Connection* connection, const DirectionTerms& terms, SendBuffers buffers);
  // The connection's queue pair is closed. What was sent on it waits for the next; a call that has
  // lost max_losses of them ends with `why`.
  void Detach(const absl::Status& why);
  bool attached() const { return connection_ != nullptr; }
  // Since Attach().
  uint32_t replies_on_connection() const { return replies_on_connection_; }

  // `done` is called once, never from inside Call. ResourceExhausted beyond max_calls;
  // InvalidArgument for what the binding does not allow or no buffer is large enough for;
  // AlreadyExists when a header's XID cannot be had because of a call that is outstanding: the next
  // one may do; ResourceExhausted also when its memory cannot be offered now; Unavailable after
  // FailAll. `id`, when not null, names the call.
  absl::Status Call(const oncrpc::CallRequest& request, oncrpc::CallDone&& done,
                    oncrpc::CallId* id = nullptr);
  // The server is locked out of the call's memory before this returns; its callback is dropped
  // uncalled. False: the call is done already. RFC 8166 section 4.4.1 and section 8.1.3
  bool Cancel(const oncrpc::CallId& id);
  // Every call that is not done ends with `status`. The queue pair must be closed already.
  void FailAll(const absl::Status& status);

  uint32_t outstanding() const { return window_.outstanding(); }
  uint32_t waiting() const { return waiting_count_; }
  const CreditWindow& window() const { return window_; }
  // The keys that the connection advertises for calls right now.
  uint32_t advertised_regions() const { return advertised_; }

  void OnMessage(const Connection::Arrival& arrival) override;
  bool Expects(uint32_t xid) const override { return FindXid(xid) != nullptr; }
  void OnSent(uint32_t cookie) override;
  void OnFailed(uint32_t /*cookie*/, ibv_wc_status /*status*/) override {}

 private:
  // Of a call, in this order; back to kWaiting with a connection that is lost.
  enum class State : uint8_t {
    kFree,
    kWaiting,    // for a connection, credit, a send buffer, or room in the send queue
    kSent,       // the reply has not come
    kAbandoned,  // over for its caller; the credit and the XID are still taken
  };
  // The RPC header and the arguments of a long call, items, item buffers, the reply buffer.
  static constexpr size_t kMaxRegions = 2 + 2 * oncrpc::kMaxItems + 1;
  static constexpr uint32_t kNoBuffer = UINT32_MAX;
  struct Slot {
    explicit Slot(Requester* owner) : requester(owner), timer(&Requester::OnTimeout, this) {}
    Requester* requester;
    State state = State::kFree;
    bool has_xid = false;
    bool queued = false;      // in waiting_: nothing of it was sent on this connection
    bool silent = false;      // a connection was given up for it
    bool has_chunks = false;  // by its plan
    bool withdrawn = false;   // its regions, whose keys the reply may still invalidate
    uint32_t index = 0;
    uint32_t xid = 0;
    uint32_t sends = 0;
    uint32_t losses = 0;   // of connections that it was sent on
    uint64_t sent_ns = 0;  // the last time
    uint64_t number = 0;   // calls are counted as they are made
    uint8_t region_count = 0;
    uint8_t write_chunk_count = 0;
    bool offered_reply = false;
    uint32_t header_buffer = kNoBuffer;  // of a long call: where the server reads its RPC header
    CallPlan plan;
    oncrpc::CallDone done;
    engine::Timer timer;
    oncrpc::CallRequest request;
    // As offered, of calls with chunks. A Write chunk of no bytes is an empty chunk.
    Segment reply_chunk;
    std::array<Segment, oncrpc::kMaxItems> write_chunks;
    std::array<memory::MemoryRegion, kMaxRegions> regions;
  };

  // A connection's silence is looked at so many times in silence_ns.
  static constexpr uint64_t kLooksPerSilence = 4;

  static void OnTimeout(void* slot, uint64_t now_ns);
  static void OnLook(void* requester, uint64_t now_ns);
  void ArmLook(uint64_t now_ns);
  // Whether a call cannot be sent for others that are silent, or that nobody waits for any more.
  bool IsChoked() const;
  // The life of a call: requester.cc.
  void SendWaiting() {
    while (waiting_count_ > 0 && MaySend()) SendFirstWaiting();
  }
  bool MaySend() const {
    return connection_ != nullptr && window_.CanSend() && !free_buffers_.empty() &&
           connection_->send_room() > 0 && !connection_->broken();
  }
  void SendFirstWaiting();
  // Not OK: the call cannot be built, and nothing of it has been sent.
  absl::Status SendCall(Slot& slot);
  void Abandon(Slot& slot, absl::Status status);
  void Finish(Slot& slot, absl::Status status, const oncrpc::Reply* reply) {
    Fence(slot);
    FinishFenced(slot, std::move(status), reply);
  }
  void FinishFenced(Slot& slot, absl::Status status, const oncrpc::Reply* reply);
  void Release(Slot& slot);
  void ReleaseBuffer(uint32_t buffer);
  void TakeXid(Slot& slot);
  Slot*& PlaceOf(uint32_t xid) { return by_xid_[xid & (by_xid_.size() - 1)]; }
  // What travels as the call's RPC header, and what follows from it.
  oncrpc::CallHeader HeaderOf(const Slot& slot) const;
  CallTerms TermsOf(const oncrpc::CallRequest& request) const;
  // Of those sent on this connection.
  Slot* FindXid(uint32_t xid) const;
  // The i-th that waits.
  uint32_t& WaitingAt(uint32_t i) { return waiting_[(waiting_head_ + i) & (waiting_.size() - 1)]; }
  void Enqueue(Slot& slot);
  void Dequeue(const Slot& slot);
  // How it becomes a message: requester_message.cc.
  absl::Status BuildCall(Slot& slot, uint32_t buffer, size_t* bytes);
  // The same of a call that is nothing but its arguments, under the requester's own header.
  size_t BuildPlainCall(Slot& slot, uint32_t buffer);
  absl::Status OfferReads(Slot& slot, uint32_t buffer, const oncrpc::CallHeader& call);
  absl::Status OfferWrites(Slot& slot);
  absl::Status Offer(Slot& slot, absl::Span<const uint8_t> memory, int access, Segment* segment);
  void Fence(Slot& slot);
  // Of a call that is over before its reply: the server is locked out, and may still invalidate.
  void Withdraw(Slot& slot);
  void GiveHeaderBufferBack(Slot& slot);
  // How a reply is taken: requester_reply.cc.
  // What the peer invalidated with a reply to `slot` was offered for it.
  static bool MayInvalidate(const Slot& slot, uint32_t key);
  void TakeMessage(const Connection::Arrival& arrival);
  // The call has had its reply, which says nothing.
  void FailAnswered(Slot& slot, Refusal why, uint32_t credits);
  // The same of a success without chunks that answers a call without any. False: it is none, and
  // nothing was done.
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
  PlainCalls plain_calls_;  // under terms_
  PlainCall plain_call_;
  bool invalidatable_ = false;
  bool given_up_ = false;  // the connection, for its silence
  CreditWindow window_;
  uint32_t replies_on_connection_ = 0;
  absl::Status down_;  // why no call is taken any more
  uint32_t next_xid_;
  uint64_t last_number_ = 0;
  uint32_t advertised_ = 0;
  // Scratch: the header of the call that is built, and the results of the reply in hand.
  Header header_;
  std::array<oncrpc::ReducedItem, oncrpc::kMaxItems> results_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<uint32_t> free_slots_;
  uint32_t buffer_count_ = 0;  // of the connection's send buffers, ours
  std::vector<uint32_t> free_buffers_;
  std::vector<uint8_t> buffer_uses_;  // by its SEND, and by the server that reads a long call
  std::vector<Slot*> by_xid_;         // power of two; an XID whose place is taken is not used
  std::vector<uint32_t> waiting_;     // ring of max_calls, a power of two
  uint32_t waiting_head_ = 0;         // runs freely
  uint32_t waiting_count_ = 0;
  engine::Timer look_timer_;  // armed while attached
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_REQUESTER_REQUESTER_H_
