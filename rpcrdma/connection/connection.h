// One RPC-over-RDMA connection: its protection domain (RFC 8166 section 8.1.1: its alone), queue
// pair, completion queue, receive and send buffers. What the messages mean is for the roles
// attached to it.
#ifndef POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_
#define POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_

#include <cstdint>
#include <cstdlib>
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
  // Unless this is not 0: then so many are posted before it is made, in memory that is used once;
  // Complete() makes the buffers.
  uint32_t first_receives = 0;
  uint32_t send_buffers = 64;
  uint32_t send_queue = 512;   // work requests
  uint32_t send_bytes = 4096;  // of a send buffer: the send size of RFC 8797
  uint32_t receive_bytes = 4096;
  bool remote_invalidation = true;  // this side can do it, and have it done. RFC 8797 section 4.1
};

// Those of a connection's send buffers that one role fills; their numbers are its cookies.
struct SendBuffers {
  uint32_t first = 0;
  uint32_t count = 0;
  bool Contain(uint32_t buffer) const { return buffer - first < count; }
};

// Belongs to one worker; all calls on its core. Its queue pair is destroyed with it, at the latest.
class Connection {
 public:
  // A message that came. It stays where it is until Repost(receive).
  struct Arrival {
    uint32_t receive = 0;
    absl::Span<const uint8_t> message;
    uint32_t invalidated = 0;  // the key that its Send invalidated here; 0: none
    bool plain = false;        // IsPlainMessage(message)
    // Of any other message; until the next one is taken.
    const ReceivedHeader* header = nullptr;
    // Whether it is a call or a reply is certain, and with it what its credit value means.
    bool is_directed = true;
  };
  // A Requester or a Responder. Called from Poll().
  class Role {
   public:
    virtual ~Role() = default;
    virtual void OnMessage(const Arrival& arrival) = 0;
    // Whether a call of that XID is outstanding.
    virtual bool Expects(uint32_t /*xid*/) const { return false; }
    // The work request posted with `cookie` is done, and so are all posted before it: those that
    // are told of are told in their order.
    virtual void OnSent(uint32_t cookie) = 0;
    // The work request posted with `cookie` failed, and the connection with it.
    virtual void OnFailed(uint32_t cookie, ibv_wc_status status) = 0;
  };

  // ResourceExhausted when the worker cannot give the objects, or there is no memory.
  // `poller` calls Poll(), is woken when there may be something for it, and outlives this.
  // `on_event`: asynchronous events of the queue pair, for CM.
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

  // Posts every receive that is there. The queue pair must be in IBV_QPS_INIT.
  absl::Status PostReceives();
  // Once, with first_receives, before the first Poll(): makes the buffers and posts the other
  // receives. ResourceExhausted without memory; the connection is then to be ended.
  absl::Status Complete();
  // Parses the header of a message that came earlier, in place of that of the last one taken.
  const ReceivedHeader& Parse(absl::Span<const uint8_t> message);
  // Gives a receive buffer back to the queue.
  void Repost(uint32_t receive);

  // Awake while Poll() may find something, or a role may be able to continue.
  Wakeup& wakeup() { return wakeup_; }
  // Takes what completed, a bounded number of completions. True when there was something.
  bool Poll(Role& role) { return HasCompletions() && PollCompletions(role); }
  // The same without messages, which wait.
  bool PollSent(Role& role) { return HasCompletions() && TellSent(role); }
  // From now on a peer that was not heard of for kQuietNs is asked whether it lives, by an RDMA
  // WRITE of no bytes, which needs no key and takes no receive of the peer's; when RC's retries run
  // out the connection is broken. Else one that is gone without a DREQ would never be missed while
  // this side only waits.
  static constexpr uint64_t kQuietNs = 10'000'000'000;
  void WatchPeer();
  // A work request failed, or could not be posted: the connection carries nothing more.
  bool broken() const { return broken_; }
  void MarkBroken() {
    broken_ = true;
    wakeup_.Wake();
  }
  // Whether nothing is left for Poll(), and everything posted has been reported.
  bool IsQuiet() const { return cq_->size() == 0 && posted_ == told_ && !cq_->overrun(); }
  // Of the work request that broke it; IBV_WC_SUCCESS when none did.
  ibv_wc_status failure() const { return failure_; }

  absl::Span<uint8_t> send_buffer(uint32_t index) {
    return {send_memory_.get() + index * Stride(config_.send_bytes), config_.send_bytes};
  }
  // Send queue entries free now.
  uint32_t send_room() const { return config_.send_queue - (posted_ - told_); }

  // Each takes one send queue entry; the caller has looked at send_room(). `cookie` is below
  // kMaxCookie. `lkey` 0 only for zero bytes.
  static constexpr uint32_t kMaxCookie = UINT32_MAX - 1;
  struct Local {
    const uint8_t* address = nullptr;
    uint32_t length = 0;
    uint32_t lkey = 0;
  };
  // Told of. `invalidate`: a key of the peer's that the Send takes away; 0: none. `hurried`:
  // somebody waits for the buffer; else the acknowledgement may come when it suits the peer, with
  // those of others.
  void PostSend(uint32_t buffer, uint32_t bytes, uint32_t cookie, bool hurried,
                uint32_t invalidate = 0);
  void PostRead(const Local& to, uint64_t remote, uint32_t rkey, uint32_t cookie, bool told);
  // One that is told of is hurried.
  void PostWrite(const Local& from, uint64_t remote, uint32_t rkey, uint32_t cookie, bool told);

  absl::StatusOr<memory::MemoryRegion> Register(const void* address, uint64_t length, int access);
  // Whether one more could be registered now.
  bool HasRegionLeft() const { return pd_->regions->size() < pd_->regions->capacity(); }
  // The same, for memory that the peer may take away by a Send with invalidate.
  absl::StatusOr<memory::MemoryRegion> RegisterInvalidatable(const void* address, uint32_t length,
                                                             int access);
  // Locks the peer out of memory that it may invalidate, and still takes its Send that does: until
  // Deregister().
  void Invalidate(const memory::MemoryRegion& region);
  // Fences the region. A region that cannot be fenced costs the connection.
  void Deregister(const memory::MemoryRegion& region);

  // Destroys the queue pair: nothing touches memory of this connection from then on. The CM
  // identifier must be gone. `time_wait_ns` as Worker::DestroyQp.
  void Close(uint64_t time_wait_ns = 0);

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
  // Null in place of memory that is not there.
  struct FreeMemory {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<uint8_t[], FreeMemory>;
  absl::Status MakeMemory(uint64_t bytes, int access, Memory* memory, memory::MemoryRegion* region);
  // From one buffer of `bytes` to the next: were it a power of two, as sizes are, the headers of
  // all would lie in the same few places of the cache.
  static constexpr size_t kStagger = 128;  // two cache lines
  static size_t Stride(uint32_t bytes) { return size_t{bytes} + kStagger; }
  // Those numbered from `receives` on are the first ones.
  uint8_t* ReceiveBuffer(uint32_t receive) const {
    const bool is_first = receive >= config_.receives;
    const uint32_t place = is_first ? receive - config_.receives : receive;
    return (is_first ? first_memory_ : receive_memory_).get() +
           place * Stride(config_.receive_bytes);
  }
  void PostReceive(uint32_t receive, uint32_t lkey);
  static constexpr uint32_t kNotTold = kMaxCookie;
  // Whether a work request may be posted.
  bool IsOpen() const { return qp_ != nullptr && !broken_ && send_room() > 0; }
  // `told`: the role is told when it is done.
  void Post(ibv_send_wr& wr, uint32_t cookie, bool told);
  void Posted(uint32_t cookie, bool told) {
    cookies_[posted_++ & cookie_mask_] = told ? cookie : kNotTold;
    wakeup_.Wake();
  }
  bool HasCompletions() const {
    return cq_->size() != 0 || (qp_ != nullptr && qp_->sq_head() != told_) || cq_->overrun();
  }
  bool PollCompletions(Role& role);
  bool TellSent(Role& role);
  void TakeCompletion(const ibv_wc& wc, Role& role);
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
  // By the queue pair's own account of its send queue, so that what succeeds needs no completion:
  // how many work requests were posted, how many of them are done and told of, and their cookies.
  uint32_t posted_ = 0;
  uint32_t told_ = 0;
  uint32_t cookie_mask_ = 0;
  std::unique_ptr<uint32_t[]> cookies_;
  bool broken_ = false;
  ibv_wc_status failure_ = IBV_WC_SUCCESS;
  uint64_t heard_ns_ = 0;  // when something completed last
  bool asked_ = false;     // whether the peer lives, and it has not answered
  engine::Timer quiet_timer_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_CONNECTION_CONNECTION_H_
