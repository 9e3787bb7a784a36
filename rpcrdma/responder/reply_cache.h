// What a server remembers of calls that must not run twice: a client that lost its connection sends
// them again under the same XID. (What others call a duplicate request cache.)
#ifndef POLLUX_RPCRDMA_RESPONDER_REPLY_CACHE_H_
#define POLLUX_RPCRDMA_RESPONDER_REPLY_CACHE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "oncrpc/binding.h"
#include "oncrpc/rpc_message.h"
#include "rpcrdma/responder/program.h"
#include "stack/base/types.h"

namespace pollux::rpcrdma {

// Which call it is. The port is not part of it: a client that connects again has another.
struct CallKey {
  Gid client;
  uint32_t xid = 0;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  uint64_t checksum = 0;  // ChecksumOf() the arguments: another call may bear an old one's XID
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

// Of the lengths, and of the first kChecksummedBytes of the arguments and of each item. Under
// RPCSEC_GSS of the verifier too: only who sent the call can know it, and a saved reply is given
// before anybody has looked at who asks.
inline constexpr size_t kChecksummedBytes = 1024;
uint64_t ChecksumOf(const CallView& call);

// Shared by all connections of a server; one owner. All memory is taken at start-up. Entries of
// calls that are done are given up when room is needed, the oldest of the client that has the most:
// no client drives out another that has fewer. Those of calls that run, and those whose reply is on
// its way, never are.
class ReplyCache {
 public:
  // `reply_bytes`: of results with their items and the verifier that one entry can hold; a call
  // with larger ones is remembered as one that has no reply any more.
  ReplyCache(uint32_t entries, uint32_t reply_bytes);

  // A call that waits for the reply of the one that runs.
  struct Waiter {
    Responder* responder = nullptr;
    uint32_t slot = 0;
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };
  enum class Outcome : uint8_t {
    kNew,      // to be run; Finish() when it is done
    kDone,     // saved() has its reply
    kRunning,  // Join() it
    kLost,     // it ran, and there is no reply to be had
    kFull,     // everything is taken by calls that run: not remembered
  };
  struct Found {
    Outcome outcome = Outcome::kFull;
    uint32_t entry = 0;
  };
  Found Begin(const CallKey& key);

  // `waiter` is told, and no other: whoever waited before is returned, to be let go.
  std::optional<Waiter> Join(uint32_t entry, const Waiter& waiter);
  // Nothing if another one has taken its place.
  void Leave(uint32_t entry, const Waiter& waiter);
  // The call that runs is done; the reply is copied. Who waits for it, if anybody, is told to the
  // caller, and forgotten here.
  std::optional<Waiter> Finish(uint32_t entry, const oncrpc::ReplyHeader& reply,
                               absl::Span<const uint8_t> results,
                               absl::Span<const ResultItem> items);

  // Of a call that is done: one like it is new. A reply that is lent stays as long as any.
  void Forget(uint32_t entry);

  struct Saved {
    oncrpc::ReplyHeader reply;
    absl::Span<const uint8_t> results;
    // The entry is kept until each was released.
    uint32_t item_count = 0;
    std::array<ResultItem, oncrpc::kMaxItems> items;
  };
  // False when there is none: the reply was too large. `*saved` is for one reply.
  bool Load(uint32_t entry, Saved* saved);

  uint32_t size() const { return size_; }
  uint32_t capacity() const { return static_cast<uint32_t>(entries_.size()); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum class State : uint8_t { kFree, kRunning, kDone, kLost };
  struct SavedItem {
    uint32_t position = 0;
    uint32_t bytes = 0;
  };
  struct Entry {
    State state = State::kFree;
    oncrpc::ReplyHeader reply;  // its verifier's body: before the results
    uint8_t item_count = 0;
    uint32_t pins = 0;  // items lent to replies
    uint32_t result_bytes = 0;
    uint32_t next_in_bucket = kNone;
    uint32_t newer = kNone;  // of the client's that are done or lost
    uint32_t older = kNone;
    CallKey key;
    Waiter waiter;
    std::array<SavedItem, oncrpc::kMaxItems> items;
  };
  // One that has entries.
  struct Client {
    Gid address;
    uint32_t entries = 0;
    uint32_t oldest = kNone;  // of those that are done or lost
    uint32_t newest = kNone;
  };

  uint32_t& BucketOf(const CallKey& key);
  // Made if need be.
  Client& ClientOf(const Gid& address);
  // What the client can give up first; kNone for nothing.
  uint32_t OldestOf(const Client& client) const;
  // A free entry for a client, given up by whoever has the most if need be; kNone when there is
  // none.
  uint32_t Take(const Gid& client);
  void Unlink(uint32_t entry);
  void AppendNewest(uint32_t entry);
  uint8_t* MemoryOf(uint32_t entry) { return &memory_[uint64_t{entry} * reply_bytes_]; }
  bool Save(Entry& entry, uint8_t* memory, absl::Span<const uint8_t> results,
            absl::Span<const ResultItem> items) const;

  uint32_t reply_bytes_;
  uint32_t size_ = 0;
  std::vector<Entry> entries_;
  std::vector<Client> clients_;  // as many as entries at most
  std::vector<uint32_t> free_;
  std::vector<uint32_t> buckets_;  // power of two
  std::unique_ptr<uint8_t[]> memory_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_REPLY_CACHE_H_
