// A queue pair: its attributes, state, send queue and receive queue.
#ifndef POLLUX_STACK_VERBS_QUEUE_PAIR_H_
#define POLLUX_STACK_VERBS_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "stack/base/line_array.h"
#include "stack/base/types.h"
#include "stack/base/wakeup.h"
#include "stack/memory/protection_domain.h"
#include "stack/verbs/address_handle.h"
#include "stack/verbs/completion_queue.h"
#include "stack/verbs/event_list.h"
#include "stack/verbs/limits.h"
#include "stack/verbs/shared_receive_queue.h"

namespace pollux::verbs {

// Maps a fast region (memory::RegionTable::AllocFast) in the order of the send queue, as the
// kernel's IB_WR_REG_MR. rdma-core has no such opcode for users. Post it as a RegisterWorkRequest.
inline constexpr ibv_wr_opcode kWrRegMr = IBV_WR_DRIVER1;
// Not a value of rdma-core: IBV_WC_DRIVER1 would look like a receive.
inline constexpr ibv_wc_opcode kWcRegMr = static_cast<ibv_wc_opcode>(64);
static_assert((kWcRegMr & IBV_WC_RECV) == 0, "ibv_poll_cq(3): that bit tells receives");

struct RegisterWorkRequest : ibv_send_wr {
  memory::Mapping mapping;  // region_key is unused
};

// IBV_WR_FLUSH and IBV_WC_FLUSH of rdma-core 45 and later: makes earlier RDMA WRITEs to the peer's
// memory visible. Post it as a FlushWorkRequest.
inline constexpr ibv_wr_opcode kWrFlush = static_cast<ibv_wr_opcode>(14);
inline constexpr ibv_wc_opcode kWcFlush = static_cast<ibv_wc_opcode>(8);

// `wr.rdma` names the first byte and the key; SGEs are not used.
struct FlushWorkRequest : ibv_send_wr {
  uint64_t length;      // bytes, at most kMaxMessage; not used for wire::kFlushRegion
  uint8_t placement;    // wire::kFlushGlobal, wire::kFlushPersistent or both
  uint8_t selectivity;  // wire::kFlushRange or wire::kFlushRegion
};

// A send flag of Pollux: asks for an acknowledgement, as IBV_SEND_SIGNALED does, without a
// completion.
inline constexpr unsigned kSendAskAck = 1u << 7;
static_assert((kSendAskAck & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
                              IBV_SEND_INLINE | IBV_SEND_IP_CSUM)) == 0);

class QueuePair;
struct PostedRecv;

// Takes messages of a reliable connection by a call, in place of completions.
struct MessageHandler {
  // `message` is a SEND of one packet without immediate data or invalidation, `bytes` is not 0. It
  // is valid during the call. `receive` is the oldest posted receive, and large enough. Its key is
  // not checked: the handler must know that it may write to the buffer. The receive stays posted
  // unless the handler calls QueuePair::CompletePacketRecv() or QueuePair::ConsumeRecv().
  // The message is executed already, and the handler may do anything, also destroy the queue pair.
  // It is called while the worker receives packets. Other messages, and single packets that need
  // other checks, still write completions: the handler must see to the order.
  void (*handle)(void* owner, const PostedRecv& receive, const uint8_t* message,
                 size_t bytes) = nullptr;  // null: all messages write completions
  void* owner = nullptr;
};

// A FIFO of queue pairs, each at most once. A queue pair holds one list pointer for each value of
// `kRow`, so it can be in one FIFO of each.
template <size_t kRow>
class QueuePairRow {
 public:
  bool empty() const { return head_ == nullptr; }
  const QueuePair* front() const { return head_; }  // null when empty
  // Appends the queue pair unless the FIFO contains it.
  inline void Push(QueuePair* qp);
  // Returns null if empty.
  inline QueuePair* Pop();
  // Visits the first `most` queue pairs if there are at least two.
  template <class Function>
  void VisitFirst(int most, Function visit) const;
  inline void Remove(QueuePair* qp);

 private:
  QueuePair* head_ = nullptr;
  QueuePair* tail_ = nullptr;
};

// The queue pairs with something to send; one list per worker. The base FIFO holds those that wait
// for their turn to send.
class ActiveList : public QueuePairRow<0> {
 public:
  // Queue pairs that owe their peer an acknowledgement or a NAK. These are sent without waiting for
  // the queue pair's turn to send.
  using OwedAcks = QueuePairRow<1>;
  OwedAcks& owed_acks() { return owed_acks_; }
  // Removes the queue pair from both FIFOs.
  void Remove(QueuePair* qp) {
    QueuePairRow<0>::Remove(qp);
    owed_acks_.Remove(qp);
  }

 private:
  OwedAcks owed_acks_;
};

struct QueuePairInitAttr {
  ibv_qp_type type = IBV_QPT_RC;
  memory::ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  // instead of its own receive queue
  ibv_qp_cap cap{};  // counts are used as given; max_inline_data is at most kMaxInline
  bool sq_sig_all = false;
  // The first message sequence number (MSN) of a reliable connection's responder, 24 bits. Peers
  // expect 0; simulations choose others to test the wrap.
  uint32_t first_msn = 0;
  MessageHandler message_handler;
  // If not null (not owned, outlives the queue pair): woken when sends have completed because the
  // peer has acknowledged them, whether or not completions are written.
  Wakeup* sends_wakeup = nullptr;
  // Receives this queue pair's asynchronous events (IBV_EVENT_COMM_EST, IBV_EVENT_QP_FATAL,
  // IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED,
  // IBV_EVENT_SQ_DRAINED) on the owning core between polls of the packet path, never during a post.
  EventHandler on_event;
};

// A work request in the send queue. One cache line, since with many active queue pairs it is not in
// the cache.
struct alignas(64) SendWqe {
  uint64_t wr_id = 0;
  union {
    uint64_t remote_address = 0;  // for kWrRegMr: the iova
    AddressHandle* ah;            // for UD
  };
  union {
    struct {
      uint64_t compare_add, swap;
    } atomic = {};
    uint8_t atomic_write[8];  // the bytes to write
    struct {
      uint32_t length;
      uint8_t placement, selectivity;
    } flush;
    struct {
      uint64_t address, length;
    } memory;         // for IBV_WR_BIND_MW and kWrRegMr
    ibv_sge element;  // if has_element
  };
  uint32_t rkey = 0;  // remote key, or the key to invalidate, bind or map
  uint32_t immediate_be = 0;
  uint32_t length = 0;  // bytes of the message
  union {
    uint32_t remote_qpn = 0;
    uint32_t region_key;  // for IBV_WR_BIND_MW: the lkey of the region to bind to
  };
  union {
    uint32_t remote_qkey = 0;
    uint32_t memory_access;
  };
  uint32_t packets = 0;  // PSNs it consumes; 0 for a local request
  Psn first_psn;         // valid once numbered, at the first transmission
  ibv_wr_opcode opcode : 8 = IBV_WR_SEND;
  uint8_t num_sge = 0;
  uint8_t send_flags = 0;  // ibv_send_flags and kSendAskAck
  bool numbered : 1 = false;
  bool executed : 1 = false;  // for a local request
  // A SEND of one packet from one SGE without further options, as most small messages are. Set when
  // the SEND is posted.
  bool is_short_send : 1 = false;
  // For a reliable connection: a SEND or RDMA WRITE of one packet from one SGE, not inline, without
  // immediate data, invalidation and fence.
  bool is_single_packet : 1 = false;
  bool has_element : 1 = false;  // its only SGE is in `element`
  uint8_t unused : 3 = 0;        // so that the byte is written as a whole

  bool asks_ack() const { return (send_flags & (IBV_SEND_SIGNALED | kSendAskAck)) != 0; }
  bool is_write() const {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool is_atomic() const {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  // Whether it is completed by a READ response without payload.
  bool has_empty_response() const { return opcode == IBV_WR_ATOMIC_WRITE || opcode == kWrFlush; }
  // Whether it is completed by a response of its own rather than by an acknowledgement.
  bool has_response() const {
    return !is_short_send && (opcode == IBV_WR_RDMA_READ || is_atomic() || has_empty_response());
  }
  // Whether it only changes keys on this side and sends nothing.
  bool is_local() const {
    return !is_short_send &&
           (opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW || opcode == kWrRegMr);
  }
};
static_assert(sizeof(SendWqe) == 64 && kMaxSge <= UINT8_MAX);

// A posted receive in a queue pair's own queue.
struct alignas(32) PostedRecv : RecvWqe {
  ibv_sge element;  // the only SGE, if num_sge is 1
};

// Owned by one worker: only its core may post to it, poll it or change it. Create it with
// Worker::CreateQp(). Source: IB specification 10.3.
class QueuePair : public EventSource {
 public:
  // `active` and `events` belong to the worker and must outlive this object. The caller registers
  // it with the completion queues (CompletionQueue::Attach).
  QueuePair(Qpn qpn, QueuePairInitAttr init, ActiveList* active, EventList* events = nullptr);
  ~QueuePair() override;
  // Whether its queues could be allocated; if not, it must not be used.
  bool has_memory() const {
    return sq_ && sq_sge_ && sq_inline_ && rq_ && (rq_sge_ || init_.cap.max_recv_sge <= 1) &&
           (srq() == nullptr || srq_sge_);
  }

  // Post chains of work requests, as ibv_post_send and ibv_post_recv. An IBV_WR_ATOMIC_WRITE takes
  // its 8 bytes inline, whatever cap.max_inline_data is. Return 0, or an errno with
  // `*bad_wr` at the first request that was not accepted: EINVAL for a wrong state, too many SGEs,
  // an opcode that this queue pair type lacks, or a receive although there is a shared receive
  // queue; ENOMEM if the queue is full. In IBV_QPS_ERR all requests are accepted and flushed, in
  // IBV_QPS_SQE only sends are; in IBV_QPS_SQD sends wait. The memory must stay untouched until the
  // completion.
  int PostSend(const ibv_send_wr* wr, const ibv_send_wr** bad_wr);
  int PostRecv(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr);
  // Returns what PostSend() would return for the chain, without posting it.
  int CheckSends(const ibv_send_wr* wr) const;
  // Post one SEND or one receive with one SGE, for callers that post with every message: the
  // request is built in its queue entry. `flags` holds ibv_send_flags without IBV_SEND_INLINE, and
  // kSendAskAck. `invalidate` is the peer's key that the SEND invalidates, 0 for none.
  [[gnu::always_inline]] int PostOneSend(uint64_t wr_id, const ibv_sge& sge, unsigned flags,
                                         uint32_t invalidate) {
    if (sge.length - 1 >= most_plain_bytes_ || sq_tail_ - sq_head_ >= init_.cap.max_send_wr)
        [[unlikely]] {
      return PostOtherSend(wr_id, sge, flags, invalidate);
    }
    SendWqe& wqe = sq_[sq_tail_++ & sq_mask_];
    FillPlain(wr_id, sge, invalidate != 0 ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND, flags, wqe);
    wqe.rkey = invalidate;
    Activate();
    return 0;
  }
  int PostOneRecv(uint64_t wr_id, const ibv_sge& sge) {
    return TakePlainRecv(wr_id, sge) ? 0 : PostOtherRecv(wr_id, sge);
  }

  Qpn qpn() const { return qpn_; }
  ibv_qp_type type() const { return init_.type; }
  ibv_qp_state state() const { return attr.qp_state; }
  // Whether requests are sent; in IBV_QPS_SQD only those that had begun before.
  bool sends() const { return state() == IBV_QPS_RTS || state() == IBV_QPS_SQD; }
  const QueuePairInitAttr& init() const { return init_; }  // on_event is empty
  SharedReceiveQueue* srq() const { return init_.srq; }

  // Checks a transition and its attributes against the verbs state machine and applies them; the
  // transport then acts on the new state. In IBV_QPS_SQD attr.sq_draining is 1 until OnDrained().
  // Errors: InvalidArgument names the attribute or transition; FailedPrecondition while the send
  // queue drains, unless the new state is IBV_QPS_ERR or IBV_QPS_RESET.
  absl::Status Modify(const ibv_qp_attr& change, int mask);
  // Called in IBV_QPS_SQD when all requests that had begun are complete. Raises
  // IBV_EVENT_SQ_DRAINED if it was requested (IBV_QP_EN_SQD_ASYNC_NOTIFY).
  void OnDrained();

  // The largest SEND or RDMA WRITE of a reliable connection, in bytes, that one packet carries; 0
  // while none may be posted, and for other types.
  uint32_t most_plain_bytes() const { return most_plain_bytes_; }
  uint32_t PathMtuBytes() const { return 128u << attr.path_mtu; }
  // Sets the largest datagram of a queue pair that is not connected, from its port's MTU. Kept
  // across RESET. A connected queue pair gets its path MTU with RTR.
  void SetPortMtu(ibv_mtu mtu) {
    port_mtu_ = mtu;
    attr.path_mtu = mtu;
  }

  // Send queue, for the transport. Indices increase without bound and are taken modulo the ring
  // size.
  uint32_t sq_head() const { return sq_head_; }
  uint32_t sq_tail() const { return sq_tail_; }
  SendWqe& sq(uint32_t index) { return sq_[index & sq_mask_]; }
  const ibv_sge* sq_sge(uint32_t index) const {
    const SendWqe& wqe = sq_[index & sq_mask_];
    if (wqe.has_element) return &wqe.element;
    return &sq_sge_[(index & sq_mask_) * static_cast<size_t>(init_.cap.max_send_sge)];
  }
  const uint8_t* sq_inline(uint32_t index) const {
    return &sq_inline_[(index & sq_mask_) * static_cast<size_t>(init_.cap.max_inline_data)];
  }
  // Retires the oldest request, and writes a completion if it is signalled or `status` is an error.
  // `byte_len` is in bytes.
  void CompleteSend(ibv_wc_status status, uint32_t byte_len = 0) {
    const SendWqe& wqe = sq_[sq_head_++ & sq_mask_];
    if (status != IBV_WC_SUCCESS || IsReported(wqe)) PushSendCompletion(wqe, status, byte_len);
  }
  // CompleteSend(IBV_WC_SUCCESS) for `wqe`, which is the oldest request.
  void CompleteOldestSend(const SendWqe& wqe) {
    ++sq_head_;
    if (IsReported(wqe)) PushSendCompletion(wqe, IBV_WC_SUCCESS, 0);
  }
  // Called after the peer has acknowledged requests, and these were completed.
  void TellSendsCompleted() const {
    if (init_.sends_wakeup != nullptr) init_.sends_wakeup->Wake();
  }
  // As CompleteSend(), for UC and UD, where an error stops only the send queue: the state becomes
  // IBV_QPS_SQE, and posted sends complete with IBV_WC_WR_FLUSH_ERR until RTS is entered again.
  void FinishSend(ibv_wc_status status);

  // Receive queue, for the transport. Takes the next receive for a message, or keeps the one that
  // was taken and is not yet complete. Returns false if none is posted.
  bool TakeRecv() {
    if (srq() == nullptr) [[likely]]
      return rq_head_ != rq_tail_;
    return TakeSharedRecv();
  }
  // The receive that TakeRecv() would take or keep; null if it would return false.
  const RecvWqe* NextRecv() const {
    if (srq() != nullptr) [[unlikely]]
      return srq_taken_ ? &srq_recv_ : srq()->Front();
    return rq_head_ == rq_tail_ ? nullptr : &rq_[rq_head_ & rq_mask_];
  }
  // The receive that TakeRecv() took.
  const RecvWqe& recv() const {
    if (srq() != nullptr) [[unlikely]]
      return srq_recv_;
    return rq_[rq_head_ & rq_mask_];
  }
  const ibv_sge* recv_sge() const {
    if (srq() != nullptr) return srq_sge_.get();
    const PostedRecv& receive = rq_[rq_head_ & rq_mask_];
    if (receive.num_sge <= 1) return &receive.element;
    return rq_sge_.get() + (rq_head_ & rq_mask_) * static_cast<size_t>(init_.cap.max_recv_sge);
  }
  // The next receive if it has one SGE and room for `bytes` bytes, else null. Null with a shared
  // receive queue: the queue pair's own is then empty.
  const PostedRecv* RecvForPacket(size_t bytes) const {
    const PostedRecv& receive = rq_[rq_head_ & rq_mask_];
    if (rq_head_ == rq_tail_ || receive.num_sge != 1 || bytes > receive.length) [[unlikely]]
      return nullptr;
    return &receive;
  }
  // The protection domain of its SGEs.
  const memory::ProtectionDomain& recv_pd() const {
    return srq() != nullptr ? *srq()->pd() : *init_.pd;
  }
  // Completes the receive that was taken; sets wr_id and qp_num. `solicited`: the sender requested
  // an event for the message (IBV_SEND_SOLICITED).
  void CompleteRecv(const ibv_wc& wc, bool solicited = false) {
    WriteRecvCompletion(solicited, [&wc](ibv_wc& place) { place = wc; });
  }
  // Completes it with an error. As in ibv_poll_cq(3), only wr_id, qp_num and status are then valid.
  void FailRecv(ibv_wc_status status);
  // As CompleteRecv(); see CompletionQueue::Write().
  template <class Fill>
  void WriteRecvCompletion(bool solicited, Fill fill) {
    const uint64_t wr_id = recv().wr_id;
    if (srq() != nullptr) [[unlikely]] {
      srq_taken_ = false;
    } else {
      ++rq_head_;
    }
    AppendRecvCompletion(wr_id, solicited, fill);
  }
  // As WriteRecvCompletion(), for the receive from RecvForPacket().
  template <class Fill>
  void CompletePacketRecv(const PostedRecv& receive, bool solicited, Fill fill) {
    ++rq_head_;
    AppendRecvCompletion(receive.wr_id, solicited, fill);
  }
  // The message handler keeps the receive that it was given.
  void ConsumeRecv() {
    if (rq_head_ != rq_tail_) ++rq_head_;  // it may have been flushed meanwhile
  }
  bool has_message_handler() const { return init_.message_handler.handle != nullptr; }
  void HandleMessage(const PostedRecv& receive, const uint8_t* message, size_t bytes) const {
    init_.message_handler.handle(init_.message_handler.owner, receive, message, bytes);
  }
  uint32_t rq_depth() const { return rq_tail_ - rq_head_; }

  // Enters IBV_QPS_ERR: posted requests complete with IBV_WC_WR_FLUSH_ERR.
  void EnterError();
  // Called after a completion queue of this queue pair has lost a completion.
  void OnCompletionLost();

  // Request a turn to send, and the sending of an owed acknowledgement or NAK.
  void Activate() { active_->Push(this); }
  void ActivateAck() { active_->owed_acks().Push(this); }

  // Attributes as last modified (ibv_query_qp). Written by Modify(), and qp_state by EnterError().
  ibv_qp_attr attr{};
  // The path of a connected queue pair, from attr.ah_attr. The engine sets it before Modify().
  AddressHandle path;
  // The object that sends and receives its packets; private to the transport.
  void* transport = nullptr;
  // The ECN field (RFC 3168) of packets with payload; private to the transport.
  uint8_t data_ecn = 0;

 private:
  template <class Fill>
  [[gnu::always_inline]] void AppendRecvCompletion(uint64_t wr_id, bool solicited, Fill fill) {
    const bool written = init_.recv_cq->Write(solicited, [&](ibv_wc& wc) {
      fill(wc);
      wc.wr_id = wr_id;
      wc.qp_num = qpn_.value;
    });
    if (!written) [[unlikely]]
      OnCompletionLost();
  }
  template <size_t kRow>
  friend class QueuePairRow;
  struct Place {
    QueuePair* next = nullptr;
    bool taken = false;
  };
  bool IsReported(const SendWqe& wqe) const {
    return (wqe.send_flags & IBV_SEND_SIGNALED) != 0 || init_.sq_sig_all;
  }
  bool flushes_sends() const { return state() == IBV_QPS_ERR || state() == IBV_QPS_SQE; }
  bool takes_sends() const { return sends() || flushes_sends(); }
  uint64_t PacketsOf(uint64_t length) const {
    const uint64_t mtu = PathMtuBytes();
    return length <= mtu ? 1 : (length + mtu - 1) / mtu;
  }
  int CheckSend(const ibv_send_wr& wr, uint64_t* length) const;
  int TakeOtherSend(const ibv_send_wr& wr);
  bool TakeSharedRecv();
  void PushSendCompletion(const SendWqe& wqe, ibv_wc_status status, uint32_t byte_len);
  void FlushSend();
  void FlushRecv();

  // Called after each change of the state or the path MTU.
  void SetPlainLimits() {
    const bool takes = type() == IBV_QPT_RC && sends();
    most_plain_bytes_ = takes ? PathMtuBytes() : 0;
    const bool receives = state() != IBV_QPS_RESET && state() != IBV_QPS_ERR;
    most_plain_recvs_ = receives ? init_.cap.max_recv_wr : 0;
  }
  // Posts a receive of one SGE. Returns false if it is too long or most_plain_recvs_ are posted.
  [[gnu::always_inline]] bool TakePlainRecv(uint64_t wr_id, const ibv_sge& sge) {
    if (rq_depth() >= most_plain_recvs_ || sge.length > kMaxMessage) [[unlikely]]
      return false;
    PostedRecv& receive = rq_[rq_tail_++ & rq_mask_];
    receive.wr_id = wr_id;
    receive.length = sge.length;
    receive.num_sge = 1;
    receive.element = sge;
    return true;
  }
  int PostOtherRecv(uint64_t wr_id, ibv_sge sge);
  int PostOtherSend(uint64_t wr_id, ibv_sge sge, unsigned flags, uint32_t invalidate);
  [[gnu::always_inline]] static void FillPlain(uint64_t wr_id, const ibv_sge& sge,
                                               ibv_wr_opcode opcode, unsigned flags, SendWqe& wqe) {
    wqe =
        SendWqe{.wr_id = wr_id,
                .element = sge,
                .length = sge.length,
                .packets = 1,
                .opcode = opcode,
                .num_sge = 1,
                .send_flags = static_cast<uint8_t>(flags),
                .is_short_send = opcode == IBV_WR_SEND,
                .is_single_packet = opcode != IBV_WR_SEND_WITH_INV && (flags & IBV_SEND_FENCE) == 0,
                .has_element = true};
  }
  bool TakePlainSend(const ibv_send_wr& wr);
  int PostSendChain(const ibv_send_wr* wr, const ibv_send_wr** bad_wr);
  int PostRecvChain(const ibv_recv_wr* wr, const ibv_recv_wr** bad_wr);
  int TakeRecvRequest(const ibv_recv_wr& wr);

  // The members that a post reads are adjacent, since with many active queue pairs they are not in
  // the cache.
  ActiveList* active_;
  std::array<Place, 2> places_;  // links in the FIFOs of the active list
  uint32_t sq_mask_, rq_mask_;
  uint32_t sq_head_ = 0, sq_tail_ = 0;
  uint32_t rq_head_ = 0, rq_tail_ = 0;
  uint32_t most_plain_bytes_ = 0;
  // The most receives that TakePlainRecv() accepts; 0 in IBV_QPS_RESET and IBV_QPS_ERR, and with a
  // shared receive queue.
  uint32_t most_plain_recvs_ = 0;
  LineArray<SendWqe> sq_;
  LineArray<ibv_sge> sq_sge_;
  Qpn qpn_;
  ibv_mtu port_mtu_ = IBV_MTU_256;
  QueuePairInitAttr init_;
  LineArray<uint8_t> sq_inline_;
  // The receive taken from the shared receive queue, until it is complete.
  bool srq_taken_ = false;
  RecvWqe srq_recv_;
  LineArray<ibv_sge> srq_sge_;
  LineArray<PostedRecv> rq_;
  LineArray<ibv_sge> rq_sge_;  // of receives with several SGEs
};

template <size_t kRow>
inline void QueuePairRow<kRow>::Push(QueuePair* qp) {
  QueuePair::Place& place = qp->places_[kRow];
  if (place.taken) return;
  place = {nullptr, true};
  (tail_ != nullptr ? tail_->places_[kRow].next : head_) = qp;
  tail_ = qp;
}

template <size_t kRow>
inline QueuePair* QueuePairRow<kRow>::Pop() {
  QueuePair* qp = head_;
  if (qp == nullptr) return nullptr;
  head_ = qp->places_[kRow].next;
  if (head_ == nullptr) tail_ = nullptr;
  qp->places_[kRow].taken = false;
  return qp;
}

template <size_t kRow>
template <class Function>
void QueuePairRow<kRow>::VisitFirst(int most, Function visit) const {
  if (head_ == tail_) return;
  for (QueuePair* qp = head_; qp != nullptr && most > 0; qp = qp->places_[kRow].next, --most) {
    visit(qp);
  }
}

template <size_t kRow>
inline void QueuePairRow<kRow>::Remove(QueuePair* qp) {
  if (!qp->places_[kRow].taken) return;
  QueuePair* previous = nullptr;
  for (QueuePair* it = head_; it != qp; it = it->places_[kRow].next) previous = it;
  (previous != nullptr ? previous->places_[kRow].next : head_) = qp->places_[kRow].next;
  if (tail_ == qp) tail_ = previous;
  qp->places_[kRow].taken = false;
}

}  // namespace pollux::verbs

#endif  // POLLUX_STACK_VERBS_QUEUE_PAIR_H_
