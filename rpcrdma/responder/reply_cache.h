// The reply cache (duplicate request cache): a server's memory of calls that must not run twice. A
// client that has lost its connection repeats them with the same XID.
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

// Identifies a call. The port is not part of it, because it changes when the client connects again.
struct CallKey {
  Gid client;
  uint32_t xid = 0;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  uint64_t checksum = 0;  // ChecksumOf() the call, because a new call may reuse an old XID
  friend bool operator==(const CallKey&, const CallKey&) = default;
};

// A checksum of the lengths and of the first kChecksummedBytes of the arguments and of each item.
// Under RPCSEC_GSS it includes the verifier, which only the sender of the call can know: a saved
// reply is sent before the caller is authenticated.
inline constexpr size_t kChecksummedBytes = 1024;
uint64_t ChecksumOf(const CallView& call);

// Shared by all connections of a server; used on its core. All memory is allocated at creation.
// When the cache is full, the client with the most entries loses its oldest finished call, so no
// client can displace the entries of one that has fewer. Entries of running calls, and entries
// whose reply is being sent, are never removed.
class ReplyCache {
 public:
  // `reply_bytes`: the most bytes of results, items and verifier that one entry can hold. A call
  // with a larger reply is remembered without its reply.
  ReplyCache(uint32_t entries, uint32_t reply_bytes);

  // A repeated call that waits for the reply of the running one.
  struct Waiter {
    Responder* responder = nullptr;
    uint32_t slot = 0;
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };
  enum class Outcome : uint8_t {
    kNew,      // must be run; call Finish() when it is done
    kDone,     // Load() returns its reply
    kRunning,  // use Join()
    kLost,     // it has run, and its reply is not available
    kFull,     // all entries belong to running calls: the call is not remembered
  };
  struct Found {
    Outcome outcome = Outcome::kFull;
    uint32_t entry = 0;
  };
  Found Begin(const CallKey& key);

  // Makes `waiter` the one that gets the reply. Returns the previous waiter, if any, which must be
  // freed.
  std::optional<Waiter> Join(uint32_t entry, const Waiter& waiter);
  // Removes `waiter`. No effect if another one has replaced it.
  void Leave(uint32_t entry, const Waiter& waiter);
  // Ends a running call and copies its reply. Removes and returns the waiter, if any.
  std::optional<Waiter> Finish(uint32_t entry, const oncrpc::ReplyHeader& reply,
                               absl::Span<const uint8_t> results,
                               absl::Span<const ResultItem> items);

  // Removes a finished call, so that a repetition of it counts as new. Has no effect while its
  // reply is being sent.
  void Forget(uint32_t entry);

  struct Saved {
    oncrpc::ReplyHeader reply;
    absl::Span<const uint8_t> results;
    // The entry is kept until each item has been released.
    uint32_t item_count = 0;
    std::array<ResultItem, oncrpc::kMaxItems> items;
  };
  // Returns false if there is no reply because it was too large. `*saved` can be used for one
  // reply.
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
    oncrpc::ReplyHeader reply;  // the verifier's body is stored before the results
    uint8_t item_count = 0;
    uint32_t pins = 0;  // items in use by replies
    uint32_t result_bytes = 0;
    uint32_t next_in_bucket = kNone;
    uint32_t newer = kNone;  // in the client's list of finished calls
    uint32_t older = kNone;
    CallKey key;
    Waiter waiter;
    std::array<SavedItem, oncrpc::kMaxItems> items;
  };
  // A client that has entries.
  struct Client {
    Gid address;
    uint32_t entries = 0;
    uint32_t oldest = kNone;  // of its finished calls
    uint32_t newest = kNone;
  };

  uint32_t& BucketOf(const CallKey& key);
  // Adds the client if it is not there.
  Client& ClientOf(const Gid& address);
  // The client's oldest entry that can be removed; kNone if there is none.
  uint32_t OldestOf(const Client& client) const;
  // Returns a free entry for a client. If there is none, removes one of the client that has the
  // most. Returns kNone if that is not possible.
  uint32_t Take(const Gid& client);
  void Unlink(uint32_t entry);
  void AppendNewest(uint32_t entry);
  uint8_t* MemoryOf(uint32_t entry) { return &memory_[uint64_t{entry} * reply_bytes_]; }
  bool Save(Entry& entry, uint8_t* memory, absl::Span<const uint8_t> results,
            absl::Span<const ResultItem> items) const;

  uint32_t reply_bytes_;
  uint32_t size_ = 0;
  std::vector<Entry> entries_;
  std::vector<Client> clients_;  // at most as many as entries
  std::vector<uint32_t> free_;
  std::vector<uint32_t> buckets_;  // power of two
  std::unique_ptr<uint8_t[]> memory_;
};

}  // namespace pollux::rpcrdma

#endif  // POLLUX_RPCRDMA_RESPONDER_REPLY_CACHE_H_
