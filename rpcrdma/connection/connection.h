// One RPC-over-RDMA connection: its own protection domain (RFC 8166 section 8.1.1), queue pair,
// completion queue, and receive and send buffers. The attached roles interpret the messages.
#ifndef POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_
#define POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rpcrdma/connection/refusals.h"
#include "rpcrdma/wire/header.h"
#include "rpcrdma/wire/private_data.h"
#include "stack/base/wakeup.h"
#include "stack/engine/loop/worker.h"
#include "stack/engine/timer/timing_wheel.h"

namespace pollux::rpcrdma {

struct ConnectionConfig {
  uint32_t receives = 34;  // receive buffers, all posted before the connection is made
  // If not 0: only this many receives are posted before the connection is made, in memory that is
  // used once. Complete() allocates the buffers and posts the other receives.
  uint32_t first_receives = 0;
  uint32_t send_buffers = 64;
  uint32_t send_queue = 512;   // in work requests
  uint32_t send_bytes = 4096;  // size of a send buffer: the send size of RFC 8797
  uint32_t receive_bytes = 4096;
  bool remote_invalidation = true;  // this side supports it in both roles. RFC 8797 section 4.1
};

// The send buffers of a connection that one role uses. The role's cookies are the buffers' numbers.
struct SendBuffers {
  uint32_t first = 0;
  uint32_t count = 0;
  bool Contain(uint32_t buffer) const { return buffer - first < count; }
};

// Belongs to one worker; all functions must be called on its core. Destroys its queue pair unless
// Close() has done so.
class Connection {
 public:
  // A received message. It remains in its buffer until Repost(receive); see Keep().
  struct Arrival {
    uint32_t receive = 0;
    absl::Span<const uint8_t> message;
    // The receive's buffer if `message` is still in its packet, else null.
    uint8_t* buffer = nullptr;
    uint32_t invalidated = 0;  // the local key that its Send invalidated; 0: none
    bool plain = false;        // IsPlainMessage(message)
    // The header of any other message; valid until the next message is received.
    const ReceivedHeader* header = nullptr;
    // Whether it is known to be a call or a reply, so that the meaning of its credit value is
    // known.
    bool is_directed = true;
  };
  // A Requester or a Responder. Called from Poll(), and OnMessage() also while the worker receives
  // packets: messages of one packet need no completion. Nothing that it calls may destroy the
  // connection.
  class Role {
   public:
    virtual ~Role() = default;
    virtual void OnMessage(const Arrival& arrival) = 0;
    // Whether a call with this XID is outstanding.
    virtual bool Expects(uint32_t /*xid*/) const { return false; }
    // The work request posted with `cookie` has completed, and so have all posted before it. Called
    // in the order of posting, for the work requests that are reported.
    virtual void OnSent(uint32_t cookie) = 0;
    // The work request posted with `cookie` has failed, which ends the connection.
    virtual void OnFailed(uint32_t cookie, ibv_wc_status status) = 0;
  };

  // ResourceExhausted if the worker cannot create the objects or there is no memory. `poller` is
  // woken when Poll() must be called; it must outlive this object. `on_event` receives the
  // asynchronous events of the queue pair, for CM.
  static absl::StatusOr<std::unique_ptr<Connection>> Create(
      engine::Worker* worker, Wakeup* poller, const ConnectionConfig& config,
      absl::AnyInvocable<void(ibv_event_type)> on_event);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  engine::Worker* worker() const { return worker_; }
  memory::ProtectionDomain* pd() const { return pd_; }
  verbs::QueuePair* qp() const { return qp_; }  // null after Close()
  const ConnectionConfig& config() const { return config_; }
  Refusals& refusals() { return refusals_; }

  PrivateData LocalPrivateData() const {
    return {.remote_invalidation = config_.remote_invalidation,
            .send_bytes = config_.send_bytes,
            .receive_bytes = config_.receive_bytes};
  }

  // Posts all receives, or the first_receives. The queue pair must be in IBV_QPS_INIT.
  absl::Status PostReceives();
  // Call it once if first_receives is set, before the first Poll(): allocates the buffers and posts
  // the other receives. ResourceExhausted if there is no memory; the connection must then be ended.
  absl::Status Complete();
  // Parses the header of an earlier message again. The result replaces the header of the last
  // received message.
  const ReceivedHeader& Parse(absl::Span<const uint8_t> message);
  // Makes the message valid until Repost(arrival.receive), instead of during OnMessage() only, and
  // returns where it then is.
  static absl::Span<const uint8_t> Keep(const Arrival& arrival) {
    if (arrival.buffer == nullptr) return arrival.message;
    std::memcpy(arrival.buffer, arrival.message.data(), arrival.message.size());
    return {arrival.buffer, arrival.message.size()};
  }
  // Posts a receive buffer again.
  void Repost(uint32_t receive) {
    if (receive == current_receive_) [[likely]] {
      current_receive_ = kNoReceive;  // still posted
    } else {
      RepostConsumed(receive);
    }
  }

  // Awake while Poll() may find completions or a role may be able to continue. Work requests wake
  // it when they complete, not when they are posted.
  Wakeup& wakeup() { return wakeup_; }
  // Handles a limited number of completions. Returns true if there were any. From now on `role`
  // gets messages also when they arrive; it must stay valid until HoldMessages() or Close().
  bool Poll(Role& role) {
    role_ = broken_ ? nullptr : &role;
    return HasCompletions() && PollCompletions(role);
  }
  // The same for sent messages only; received messages wait, and are lost if the queue pair fails.
  bool PollSent(Role& role);
  // From now on received messages wait for Poll().
  void HoldMessages() { role_ = nullptr; }
  // Starts to monitor the peer: when nothing has completed and no message has come for kQuietNs, an
  // RDMA WRITE of 0 bytes is posted, which needs no key and uses no receive of the peer. If its
  // retries are used up, the connection is broken. Without this, a peer that disappears without a
  // DREQ would go unnoticed while this side only waits.
  static constexpr uint64_t kQuietNs = 10'000'000'000;
  void WatchPeer();
  // A work request has failed or could not be posted: the connection cannot be used any more.
  bool broken() const { return broken_; }
  void MarkBroken() {
    broken_ = true;
    role_ = nullptr;
    open_queue_ = 0;
    wakeup_.Wake();
  }
  // Whether Poll() has anything to do.
  bool HasCompletions() const {
    return cq_->size() != 0 || (qp_ != nullptr && qp_->sq_head() != told_) || cq_->overrun();
  }
  // The status of the work request that broke the connection; IBV_WC_SUCCESS if none did.
  ibv_wc_status failure() const { return failure_; }

  absl::Span<uint8_t> send_buffer(uint32_t index) {
    return {send_memory_.get() + index * Stride(config_.send_bytes), config_.send_bytes};
  }
  // The number of free send queue entries.
  uint32_t send_room() const { return config_.send_queue - (posted_ - told_); }
  // Whether a work request may be posted: there is room, and the connection is not broken.
  bool MaySend() const { return posted_ - told_ < open_queue_; }

  // Post a work request. Each takes one send queue entry; the caller must have checked send_room().
  // `cookie` must be less than kMaxCookie, and `lkey` may be 0 only for 0 bytes.
  static constexpr uint32_t kMaxCookie = UINT32_MAX;
  struct Local {
    const uint8_t* address = nullptr;
    uint32_t length = 0;
    uint32_t lkey = 0;
  };
  // `message` is in a send buffer. Its completion is always reported. `invalidate`: a key of the
  // peer that the Send invalidates; 0: none. `hurried`: the buffer is needed soon; otherwise the
  // peer may delay the acknowledgement and combine it with others.
  [[gnu::always_inline]] void PostSend(const uint8_t* message, uint32_t bytes, uint32_t cookie,
                                       bool hurried, uint32_t invalidate = 0) {
    if (!MaySend()) [[unlikely]]
      return MarkBroken();
    PostAllowedSend(message, bytes, cookie, hurried, invalidate);
  }
  // The same if MaySend() is true.
  [[gnu::always_inline]] void PostAllowedSend(const uint8_t* message, uint32_t bytes,
                                              uint32_t cookie, bool hurried, uint32_t invalidate) {
    const ibv_sge sge{reinterpret_cast<uint64_t>(message), bytes, send_region_.key};
    const unsigned flags = hurried ? verbs::kSendAskAck : 0;
    if (qp_->PostOneSend(cookie, sge, flags, invalidate) != 0) [[unlikely]]
      return MarkBroken();
    ++posted_;
  }
  void PostRead(const Local& to, uint64_t remote, uint32_t rkey, uint32_t cookie, bool told);
  // `told`: report the completion, which also makes the work request hurried.
  void PostWrite(const Local& from, uint64_t remote, uint32_t rkey, uint32_t cookie, bool told);

  absl::StatusOr<memory::MemoryRegion> Register(const void* address, uint64_t length, int access);
  // Whether one more region could be registered now.
  bool HasRegionLeft() const { return pd_->regions->size() < pd_->regions->capacity(); }
  // As Register(), for memory that the peer may invalidate by a Send with Invalidate.
  absl::StatusOr<memory::MemoryRegion> RegisterInvalidatable(const void* address, uint32_t length,
                                                             int access);
  // Ends the peer's access to such memory. Until Deregister(), a Send of the peer that invalidates
  // it is still accepted.
  void Invalidate(const memory::MemoryRegion& region);
  // Ends all access to the region. If that fails, the connection is broken.
  void Deregister(const memory::MemoryRegion& region);

  // Destroys the queue pair; memory of this connection is not accessed any more. The CM identifier
  // must have been destroyed.
  void Close();

 private:
  Connection(engine::Worker* worker, Wakeup* poller, const ConnectionConfig& config)
      : worker_(worker),
        wakeup_(poller),
        config_(config),
        refusals_(worker),
        quiet_timer_(&Connection::OnQuiet, this) {}
  absl::Status Init(absl::AnyInvocable<void(ibv_event_type)> on_event);
  absl::Status MakeObjects(absl::AnyInvocable<void(ibv_event_type)> on_event);
  absl::Status MakeBuffers();
  // Allocated by calloc(), which returns null instead of throwing.
  struct FreeMemory {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<uint8_t[], FreeMemory>;
  absl::Status MakeMemory(uint64_t bytes, int access, Memory* memory, memory::MemoryRegion* region);
  // The distance between buffers of `bytes`. If it were a power of two, as buffer sizes are, the
  // headers of all buffers would map to the same few cache sets.
  static constexpr size_t kStagger = 128;  // two cache lines
  static size_t Stride(uint32_t bytes) { return size_t{bytes} + kStagger; }
  // Numbers from `receives` on stand for the first_receives.
  uint8_t* ReceiveBuffer(uint32_t receive) const {
    const bool is_first = receive >= config_.receives;
    const uint32_t place = is_first ? receive - config_.receives : receive;
    return (is_first ? first_memory_ : receive_memory_).get() +
           place * Stride(config_.receive_bytes);
  }
  void PostReceive(uint32_t receive, uint8_t* buffer, uint32_t lkey);
  void RepostConsumed(uint32_t receive);
  // A verbs::MessageHandler.
  static void OnMessage(void* connection, const verbs::PostedRecv& receive, const uint8_t* message,
                        size_t bytes);
  // `told`: report the completion to the role.
  void Post(ibv_send_wr& wr, uint32_t cookie, bool told);
  bool PollCompletions(Role& role);
  bool TellSent(Role& role);
  void TakeCompletion(const ibv_wc& wc, Role& role);
  void DeliverMessage(Arrival& arrival, Role& role);
  void DeliverOtherMessage(Arrival& arrival, Role& role);
  void LeaveToPoll(const verbs::PostedRecv& receive, const Arrival& arrival);
  static void OnQuiet(void* connection, uint64_t now_ns);

  engine::Worker* worker_;
  Wakeup wakeup_;
  ConnectionConfig config_;
  Refusals refusals_;
  memory::ProtectionDomain* pd_ = nullptr;
  verbs::CompletionQueue* cq_ = nullptr;
  verbs::QueuePair* qp_ = nullptr;
  std::unique_ptr<ReceivedHeader> received_;
  Memory first_memory_;
  Memory receive_memory_;
  Memory send_memory_;
  memory::MemoryRegion first_region_;
  memory::MemoryRegion receive_region_;
  memory::MemoryRegion send_region_;
  // Completion of work requests is taken from the queue pair's send queue, so that successful ones
  // need no completion: the number posted, and the number completed and reported.
  uint32_t posted_ = 0;
  uint32_t told_ = 0;
  uint32_t open_queue_ = 0;  // config_.send_queue; 0 without a queue pair, or if broken_
  // Gets messages when they arrive; null: they wait for Poll().
  Role* role_ = nullptr;
  // The receive of the message that is being handled, if it is still posted.
  static constexpr uint32_t kNoReceive = UINT32_MAX;
  uint32_t current_receive_ = kNoReceive;
  bool broken_ = false;
  ibv_wc_status failure_ = IBV_WC_SUCCESS;
  uint64_t heard_ns_ = 0;  // time of the last completion or message
  bool asked_ = false;     // the WRITE of WatchPeer() is not acknowledged yet
  engine::Timer quiet_timer_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_
