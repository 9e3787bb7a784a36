#include "stack/io/link/impairment.h"

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/base/byte_order.h"

namespace pollux::io {
namespace {

constexpr uint16_t kBurst = 32;
constexpr uint32_t kEthernetBytes = 14;
constexpr uint32_t kEtherTypeOffset = 12;
constexpr const char* kForm = "loss=P,dup=P,reorder=P,corrupt=P,seed=N with each P from 0 to 1";

bool IsIp(const rte_mbuf* frame) {
  if (frame->data_len <= kEthernetBytes) return false;
  const uint16_t type = LoadBe16(rte_pktmbuf_mtod_offset(frame, const uint8_t*, kEtherTypeOffset));
  return type == RTE_ETHER_TYPE_IPV4 || type == RTE_ETHER_TYPE_IPV6 || type == RTE_ETHER_TYPE_VLAN;
}

absl::Status SetOption(const std::string& key, const std::string& value,
                       ImpairmentOptions* options) {
  if (key == "seed") {
    if (absl::SimpleAtoi(value, &options->seed)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("impairment seed=", value, ": not a number of 64 bits without sign"));
  }
  double* probability = key == "loss"      ? &options->loss
                        : key == "dup"     ? &options->duplicate
                        : key == "reorder" ? &options->reorder
                        : key == "corrupt" ? &options->corrupt
                                           : nullptr;
  if (probability == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("impairment \"", key, "\" is unknown; give ", kForm));
  }
  double number;
  // Written so that NaN fails.
  if (!absl::SimpleAtod(value, &number) || !(number >= 0 && number <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("impairment ", key, "=", value, ": not a probability from 0 to 1"));
  }
  *probability = number;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImpairmentOptions> ImpairmentOptions::Parse(const std::string& text) {
  ImpairmentOptions options;
  std::vector<std::string> seen;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("impairment \"", part, "\" has no \"=\"; give ", kForm));
    }
    const std::string key = part.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return absl::InvalidArgumentError(absl::StrCat("impairment ", key, " is given twice"));
    }
    seen.push_back(key);
    if (absl::Status status = SetOption(key, part.substr(equals + 1), &options); !status.ok()) {
      return status;
    }
  }
  return options;
}

Impairment::Impairment(Link* link, const ImpairmentOptions& options, rte_mempool* pool)
    : link_(link),
      options_(options),
      pool_(pool),
      receive_(options.seed * 2),
      send_(options.seed * 2 + 1) {}

Impairment::~Impairment() { Clear(); }

void Impairment::Clear() {
  Clear(receive_);
  Clear(send_);
}

void Impairment::Clear(Direction& direction) {
  for (uint16_t i = 0; i < direction.held_count; ++i) rte_pktmbuf_free(direction.held[i].frame);
  direction.held_count = 0;
  while (direction.count > 0) {
    rte_pktmbuf_free(direction.queue[direction.head]);
    direction.head = (direction.head + 1) % kQueueCapacity;
    --direction.count;
  }
}

uint16_t Impairment::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  // A worker that has nothing to send still polls: held frames leave here.
  ReleaseDue(send_, now_ns);
  FlushSend(now_ns);

  ReleaseDue(receive_, now_ns);
  std::array<rte_mbuf*, kBurst> burst;
  const uint16_t wanted = std::min({capacity, kBurst, receive_.room()});
  const uint16_t got = wanted == 0 ? 0 : link_->Receive(burst.data(), wanted, now_ns);
  for (uint16_t i = 0; i < got; ++i) Admit(receive_, burst[i], now_ns);

  const uint16_t n = std::min(capacity, receive_.count);
  for (uint16_t i = 0; i < n; ++i) {
    frames[i] = receive_.queue[receive_.head];
    receive_.head = (receive_.head + 1) % kQueueCapacity;
  }
  receive_.count -= n;
  receive_.counters.passed += n;
  return n;
}

uint16_t Impairment::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  ReleaseDue(send_, now_ns);
  FlushSend(now_ns);
  uint16_t taken = 0;
  while (taken < count && send_.room() > 0) Admit(send_, frames[taken++], now_ns);
  FlushSend(now_ns);
  return taken;
}

void Impairment::FlushSend(uint64_t now_ns) {
  while (send_.count > 0) {
    const uint16_t run = std::min<uint16_t>(send_.count, kQueueCapacity - send_.head);
    const uint16_t sent = link_->Send(&send_.queue[send_.head], run, now_ns);
    send_.head = (send_.head + sent) % kQueueCapacity;
    send_.count -= sent;
    send_.counters.passed += sent;
    if (sent < run) return;
  }
}

void Impairment::Admit(Direction& direction, rte_mbuf* frame, uint64_t now_ns) {
  Random& random = direction.random;
  if (options_.loss > 0 && random.Chance(options_.loss)) {
    ++direction.counters.lost;
    rte_pktmbuf_free(frame);
    return;
  }
  if (options_.corrupt > 0 && random.Chance(options_.corrupt)) frame = Corrupted(direction, frame);
  rte_mbuf* twin = nullptr;
  if (options_.duplicate > 0 && random.Chance(options_.duplicate)) {
    twin = rte_pktmbuf_copy(frame, pool_, 0, std::numeric_limits<uint32_t>::max());
    twin == nullptr ? ++direction.counters.copy_failed : ++direction.counters.duplicated;
  }
  if (options_.reorder > 0 && direction.held_count < kMaxHeld && random.Chance(options_.reorder)) {
    ++direction.counters.reordered;
    direction.held[direction.held_count++] = {
        .frame = frame,
        .overtakers = 1 + static_cast<int>(random.Below(kMaxOvertakers)),
        .due_ns = now_ns + kMaxHoldNs};
    if (twin != nullptr) direction.Enqueue(twin);
    return;
  }
  direction.Enqueue(frame);
  if (twin != nullptr) direction.Enqueue(twin);
  Overtake(direction);
}

void Impairment::Overtake(Direction& direction) {
  uint16_t kept = 0;
  for (uint16_t i = 0; i < direction.held_count; ++i) {
    Held held = direction.held[i];
    if (--held.overtakers <= 0) {
      direction.Enqueue(held.frame);
    } else {
      direction.held[kept++] = held;
    }
  }
  direction.held_count = kept;
}

void Impairment::ReleaseDue(Direction& direction, uint64_t now_ns) {
  // Oldest first, so the first that is not due ends it.
  uint16_t due = 0;
  while (due < direction.held_count && direction.held[due].due_ns <= now_ns) {
    direction.Enqueue(direction.held[due++].frame);
  }
  if (due == 0) return;
  std::copy(direction.held.begin() + due, direction.held.begin() + direction.held_count,
            direction.held.begin());
  direction.held_count -= due;
}

rte_mbuf* Impairment::Corrupted(Direction& direction, rte_mbuf* frame) {
  if (!IsIp(frame)) return frame;
  rte_mbuf* copy = rte_pktmbuf_copy(frame, pool_, 0, std::numeric_limits<uint32_t>::max());
  if (copy == nullptr) {
    ++direction.counters.copy_failed;
    return frame;
  }
  rte_pktmbuf_free(frame);
  const uint64_t at = kEthernetBytes + direction.random.Below(copy->data_len - kEthernetBytes);
  *rte_pktmbuf_mtod_offset(copy, uint8_t*, at) ^=
      static_cast<uint8_t>(1 + direction.random.Below(255));
  ++direction.counters.corrupted;
  return copy;
}

void Impairment::Direction::Enqueue(rte_mbuf* frame) {
  queue[(head + count) % kQueueCapacity] = frame;
  ++count;
}

uint64_t Impairment::deadline_ns() const {
  uint64_t deadline = std::numeric_limits<uint64_t>::max();
  for (const Direction* direction : {&receive_, &send_}) {
    if (direction->held_count > 0) deadline = std::min(deadline, direction->held[0].due_ns);
  }
  return deadline;
}

}  // namespace pollux::io
