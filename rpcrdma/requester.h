// The calling side of one connection: credits, XIDs, chunks offered and fenced, replies matched.
#ifndef POLLUX_RPCRDMA_REQUESTER_H_
#define POLLUX_RPCRDMA_REQUESTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rpcrdma/binding.h"
#include "rpcrdma/connection.h"
#include "rpcrdma/counters.h"
#include "rpcrdma/credits.h"
#include "rpcrdma/header.h"
#include "rpcrdma/rpc_message.h"
#include "rpcrdma/xdr.h"
#include "stack/engine/timing_wheel.h"

namespace pollux::rpcrdma {

// An argument that the binding calls DDP-eligible.
struct EligibleItem {
  absl::Span<const uint8_t> bytes;
  // Where its first byte belongs in the stream that holds everything but items: right after its
  // length word, as XdrWriter::EligibleOpaque says.
  size_t position = 0;
};

// One call. All memory named here stays the caller's, and must stay untouched, until the callback.
struct CallRequest {
  uint32_t procedure = 0;
  absl::Span<const uint8_t> arguments;  // XDR, without the bytes of `items`
  // At most kMaxItems, by position. Those that do not fit the message, the largest first, are moved
  // by RDMA READ.
  absl::Span<const EligibleItem> items;
  // Where the eligible results may be placed by RDMA WRITE, at most kMaxItems: the first result
  // that there is in the first, and so on. An empty one, or none: that result comes in the stream.
  absl::Span<const absl::Span<uint8_t>> item_buffers;
  // Where a reply may be placed that does not fit a message: kReplyHeaderBytes and the results.
  absl::Span<uint8_t> reply_buffer;
  // The most that the results can take, where the arguments say less than the binding does.
  std::optional<uint32_t> max_result_bytes;
  uint64_t timeout_ns = 0;  // 0: until the connection ends
};

// Valid during the callback.
struct Reply {
  ReplyHeader header;
  absl::Span<const uint8_t> results;
  absl::Span<const ReducedItem> items;  // one for each buffer offered
  XdrReader reader() const { return XdrReader(results, items); }
};

// OK: an RPC reply that says success. Other RPC replies: Unimplemented (no such program, version or
// procedure), InvalidArgument (garbage arguments), Internal (system error), PermissionDenied
// (authentication). No RPC reply: Unavailable (the connection ended), DeadlineExceeded,
// FailedPrecondition (RDMA_ERROR). `reply` is null unless there was an RPC reply.
using CallDone = absl::AnyInvocable<void(absl::Status, const Reply* reply)>;

struct RequesterConfig {
  uint32_t credits = 32;      // calls outstanding at most: requested, and receives posted for
  uint32_t max_calls = 1024;  // outstanding and waiting together
  OpaqueAuth credential;      // sent with every call; its body outlives the requester
};

class Requester : public Connection::Role {
 public:
  // `connection`, `binding` and `counters` outlive this. `thresholds`: bytes.
  Requester(Connection* connection, const ProgramBinding* binding, const RequesterConfig& config,
            const InlineThresholds& thresholds, Counters* counters);
  ~Requester() override;

  // `done` is called once, never from inside Call. ResourceExhausted beyond max_calls;
  // InvalidArgument for what the binding does not allow or no buffer is large enough for;
  // Unavailable after FailAll.
  absl::Status Call(const CallRequest& request, CallDone done);
  // Every call that is not done ends with `status`. The queue pair must be closed already.
  void FailAll(const absl::Status& status);

  uint32_t outstanding() const { return window_.outstanding(); }
  uint32_t waiting() const { return waiting_count_; }
  const CreditWindow& window() const { return window_; }
  // The keys that the connection advertises for calls right now.
  uint32_t advertised_regions() const { return advertised_; }

  void OnMessage(uint32_t receive, absl::Span<const uint8_t> message) override;
  void OnSent(uint32_t cookie) override;

 private:
  // Of a call, in this order.
  enum class State : uint8_t {
    kFree,
    kWaiting,    // for credit, a send buffer, or room in the send queue
    kSent,       // the reply has not come
    kAbandoned,  // timed out: done was called, the credit and the XID are still taken
  };
  // The RPC header and the arguments of a long call, items, item buffers, the reply buffer.
  static constexpr size_t kMaxRegions = 2 + 2 * kMaxItems + 1;
  static constexpr uint32_t kNoBuffer = UINT32_MAX;
  // How a call travels.
  struct Plan {
    bool write_chunks = false;
    bool reply_chunk = false;
    uint32_t read_chunks = 0;  // a bit for each item
    bool long_call = false;    // the whole Payload stream in a position-zero Read chunk
  };
  struct Slot {
    explicit Slot(Requester* owner) : requester(owner), timer(&Requester::OnTimeout, this) {}
    Requester* requester;
    State state = State::kFree;
    uint32_t index = 0;
    uint32_t xid = 0;
    CallRequest request;
    Plan plan;
    CallDone done;
    engine::Timer timer;
    uint8_t region_count = 0;
    std::array<memory::MemoryRegion, kMaxRegions> regions;
    // As offered. A Write chunk of no bytes is an empty chunk.
    uint8_t write_chunk_count = 0;
    std::array<Segment, kMaxItems> write_chunks;
    Segment reply_chunk;
    bool offered_reply = false;
    uint32_t header_buffer = kNoBuffer;  // of a long call: where the server reads its RPC header
  };

  static void OnTimeout(void* slot, uint64_t now_ns);
  absl::Status CheckBinding(const CallRequest& request, const ProcedureBinding& binding) const;
  absl::StatusOr<Plan> MakePlan(const CallRequest& request) const;
  void SendWaiting();
  void SendCall(Slot& slot);
  absl::Status BuildCall(Slot& slot, uint32_t buffer, size_t* bytes);
  absl::Status OfferReads(Slot& slot, const Plan& plan, uint32_t buffer, const CallHeader& call);
  absl::Status OfferWrites(Slot& slot, const Plan& plan);
  absl::Status Offer(Slot& slot, absl::Span<const uint8_t> memory, int access, Segment* segment);
  void Fence(Slot& slot);
  void Finish(Slot& slot, absl::Status status, const Reply* reply);
  void Release(Slot& slot);
  void ReleaseBuffer(uint32_t buffer);
  void TakeXid(Slot& slot);
  Slot* FindXid(uint32_t xid);
  bool CheckChunks(const Slot& slot, const ChunkLists& chunks);
  bool TakeReply(Slot& slot, absl::Span<const uint8_t> message, size_t header_bytes, Reply* reply);

  Connection* connection_;
  const ProgramBinding* binding_;
  RequesterConfig config_;
  InlineThresholds thresholds_;
  Counters* counters_;
  CreditWindow window_;
  absl::Status down_;  // why no call is taken any more
  uint32_t next_xid_;
  uint32_t advertised_ = 0;
  // Scratch: of the message in hand.
  Header header_;
  std::array<ReducedItem, kMaxItems> results_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> free_buffers_;
  std::vector<uint8_t> buffer_uses_;  // by its SEND, and by the server that reads a long call
  std::vector<Slot*> by_xid_;         // power of two; an XID whose place is taken is not used
  std::vector<uint32_t> waiting_;     // ring of max_calls
  uint32_t waiting_head_ = 0;
  uint32_t waiting_count_ = 0;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_REQUESTER_H_
