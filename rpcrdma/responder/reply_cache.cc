#include "rpcrdma/responder/reply_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace pollux::rpcrdma {
namespace {

// FNV-1a, eight bytes at a time.
constexpr uint64_t kBasis = 0xCBF29CE484222325;
uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x100000001B3;
  return hash ^ hash >> 29;
}

uint64_t Mix(uint64_t hash, absl::Span<const uint8_t> bytes) {
  hash = Mix(hash, bytes.size());
  bytes = bytes.first(std::min(bytes.size(), kChecksummedBytes));
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t n = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), n);
    hash = Mix(hash, word);
    bytes.remove_prefix(n);
  }
  return hash;
}

std::optional<ReplyCache::Waiter> SomeOrNone(const ReplyCache::Waiter& waiter) {
  if (waiter.responder == nullptr) return std::nullopt;
  return waiter;
}

}  // namespace

uint64_t ChecksumOf(const CallView& call) {
  uint64_t hash = Mix(kBasis, call.arguments);
  for (const oncrpc::ReducedItem& item : call.items) hash = Mix(hash, item.bytes);
  if (call.header.credential.flavor == oncrpc::AuthFlavor::kGss) {
    hash = Mix(hash, call.header.verifier.body);
  }
  return hash;
}

ReplyCache::ReplyCache(uint32_t entries, uint32_t reply_bytes)
    : reply_bytes_(reply_bytes),
      entries_(entries),
      buckets_(std::bit_ceil(uint64_t{entries} * 2), kNone),
      memory_(new uint8_t[uint64_t{entries} * reply_bytes]) {
  clients_.reserve(entries);
  free_.reserve(entries);
  for (uint32_t i = entries; i > 0; --i) free_.push_back(i - 1);
}

uint32_t& ReplyCache::BucketOf(const CallKey& key) {
  uint64_t hash = Mix(key.checksum, key.xid);
  hash = Mix(hash, absl::MakeConstSpan(key.client.raw));
  return buckets_[hash & (buckets_.size() - 1)];
}

ReplyCache::Found ReplyCache::Begin(const CallKey& key) {
  uint32_t& bucket = BucketOf(key);
  for (uint32_t at = bucket; at != kNone; at = entries_[at].next_in_bucket) {
    if (entries_[at].key != key) continue;
    switch (entries_[at].state) {
      case State::kRunning:
        return {Outcome::kRunning, at};
      case State::kDone:
        return {Outcome::kDone, at};
      default:
        return {Outcome::kLost, at};
    }
  }
  const uint32_t index = Take(key.client);
  if (index == kNone) return {};
  Entry& entry = entries_[index];
  entry.state = State::kRunning;
  entry.key = key;
  // Take() may have changed the bucket: it is read only now.
  entry.next_in_bucket = std::exchange(bucket, index);
  ++ClientOf(key.client).entries;
  ++size_;
  return {Outcome::kNew, index};
}

ReplyCache::Client& ReplyCache::ClientOf(const Gid& address) {
  const auto found = std::ranges::find(clients_, address, &Client::address);
  return found == clients_.end() ? clients_.emplace_back(Client{.address = address}) : *found;
}

uint32_t ReplyCache::OldestOf(const Client& client) const {
  uint32_t oldest = client.oldest;
  while (oldest != kNone && entries_[oldest].pins > 0) oldest = entries_[oldest].newer;
  return oldest;
}

uint32_t ReplyCache::Take(const Gid& client) {
  if (free_.empty()) {
    uint32_t given_up = kNone;
    uint32_t most = 0;
    for (const Client& other : clients_) {
      // Of those who have as many, the one that asks.
      if (other.entries < most || (other.entries == most && other.address != client)) continue;
      const uint32_t oldest = OldestOf(other);
      if (oldest == kNone) continue;
      given_up = oldest;
      most = other.entries;
    }
    if (given_up == kNone) return kNone;
    Unlink(given_up);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

void ReplyCache::Unlink(uint32_t index) {
  Entry& entry = entries_[index];
  Client& client = ClientOf(entry.key.client);
  (entry.older == kNone ? client.oldest : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? client.newest : entries_[entry.newer].older) = entry.older;
  if (--client.entries == 0) {
    client = clients_.back();
    clients_.pop_back();
  }
  uint32_t* link = &BucketOf(entry.key);
  while (*link != index) link = &entries_[*link].next_in_bucket;
  *link = entry.next_in_bucket;
  entry = Entry{};
  free_.push_back(index);
  --size_;
}

void ReplyCache::AppendNewest(uint32_t index) {
  Client& client = ClientOf(entries_[index].key.client);
  entries_[index].older = client.newest;
  (client.newest == kNone ? client.oldest : entries_[client.newest].newer) = index;
  client.newest = index;
}

std::optional<ReplyCache::Waiter> ReplyCache::Join(uint32_t entry, const Waiter& waiter) {
  return SomeOrNone(std::exchange(entries_[entry].waiter, waiter));
}

void ReplyCache::Leave(uint32_t entry, const Waiter& waiter) {
  if (entries_[entry].waiter == waiter) entries_[entry].waiter = {};
}

std::optional<ReplyCache::Waiter> ReplyCache::Finish(uint32_t index,
                                                     const oncrpc::ReplyHeader& reply,
                                                     absl::Span<const uint8_t> results,
                                                     absl::Span<const ResultItem> items) {
  Entry& entry = entries_[index];
  entry.reply = reply;
  entry.state = Save(entry, MemoryOf(index), results, items) ? State::kDone : State::kLost;
  AppendNewest(index);
  return SomeOrNone(std::exchange(entry.waiter, {}));
}

void ReplyCache::Forget(uint32_t index) {
  if (entries_[index].pins == 0) Unlink(index);
}

bool ReplyCache::Save(Entry& entry, uint8_t* memory, absl::Span<const uint8_t> results,
                      absl::Span<const ResultItem> items) const {
  uint64_t bytes = entry.reply.verifier.body.size() + results.size();
  for (const ResultItem& item : items) bytes += item.bytes.size();
  if (bytes > reply_bytes_ || items.size() > oncrpc::kMaxItems) return false;
  const auto copy = [&memory](absl::Span<const uint8_t> from) {
    if (!from.empty()) std::memcpy(memory, from.data(), from.size());
    memory += from.size();
  };
  copy(std::exchange(entry.reply.verifier.body, {memory, entry.reply.verifier.body.size()}));
  entry.result_bytes = static_cast<uint32_t>(results.size());
  copy(results);
  entry.item_count = static_cast<uint8_t>(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    entry.items[i] = {.position = static_cast<uint32_t>(items[i].position),
                      .bytes = static_cast<uint32_t>(items[i].bytes.size())};
    copy(items[i].bytes);
  }
  return true;
}

bool ReplyCache::Load(uint32_t index, Saved* saved) {
  Entry& entry = entries_[index];
  if (entry.state != State::kDone) return false;
  const uint8_t* memory = MemoryOf(index) + entry.reply.verifier.body.size();
  saved->reply = entry.reply;
  saved->results = {memory, entry.result_bytes};
  memory += entry.result_bytes;
  saved->item_count = entry.item_count;
  for (uint32_t i = 0; i < entry.item_count; ++i) {
    ++entry.pins;
    saved->items[i] = {.bytes = {memory, entry.items[i].bytes},
                       .position = entry.items[i].position,
                       .release = [this, index] { --entries_[index].pins; }};
    memory += entry.items[i].bytes;
  }
  return true;
}

}  // namespace pollux::rpcrdma
