// What must hold of an end's completions and memory, whatever went wrong.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/base/byte_order.h"
#include "tests/sim/failing_end.h"

namespace pollux::sim {

void FailingEnd::OnCompletion(const ibv_wc& wc) {
  if ((wc.opcode & IBV_WC_RECV) != 0) {
    OnReceiveCompletion(wc);
  } else {
    OnSendCompletion(wc);
  }
}

// In order, each once: successes, then one error, then what was flushed.
void FailingEnd::OnSendCompletion(const ibv_wc& wc) {
  if (wc.wr_id < completed_ || wc.wr_id >= posted_) {
    Violate(absl::StrFormat("request %d completes when %d to %d are due", wc.wr_id, completed_,
                            posted_));
    return;
  }
  for (; completed_ < wc.wr_id; ++completed_) {
    // What was not signaled succeeded, unless something before it failed.
    if (messages_[completed_].signaled || first_error_ != IBV_WC_SUCCESS) {
      Violate(absl::StrFormat("request %d passed over", completed_));
    }
    ++succeeded_;
    OnSent(messages_[completed_]);
  }
  ++completed_;
  if (wc.status == IBV_WC_SUCCESS) {
    if (first_error_ != IBV_WC_SUCCESS) Violate("a success after an error");
    ++succeeded_;
    OnSent(messages_[wc.wr_id]);
  } else if (first_error_ != IBV_WC_SUCCESS) {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) {
      Violate(absl::StrFormat("status %d after status %d", wc.status, first_error_));
    }
  } else {
    first_error_ = wc.status;
    // A receive that came too late is as good as none.
    peer_->fired_ |=
        wc.status == IBV_WC_RNR_RETRY_EXC_ERR && peer_->fault_ == SimulatedFault::kNoReceives;
    const bool from_peer = reliable() && MayFailAtPeer(peer_->fault(), wc.status);
    // Whatever befalls the peer's requests or its receives may end this end's as well.
    const bool dragged = reliable() && (peer_->fired_ || fired_) &&
                         (wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
    const bool gave_up = reliable() && few_retries_ && wc.status == IBV_WC_RETRY_EXC_ERR;
    const bool of_other =
        affects_one_ && wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id != fault_after_;
    if (!from_peer && !dragged && !gave_up && (of_other || !MayFailHere(fault(), wc.status))) {
      Violate(absl::StrFormat("request %d: status %d with simulated faults %d and %d", wc.wr_id,
                              wc.status, fault(), peer_->fault()));
    }
  }
}

// What an atomic finds.
void FailingEnd::WordBefore(const FailingMessage& message, uint8_t (&bytes)[8]) const {
  uint64_t word = 0;
  for (const FailingMessage* other = messages_.data(); other != &message; ++other) {
    word = other->WordAfter(word);
  }
  std::memcpy(bytes, &word, 8);
}

void FailingEnd::OnSent(const FailingMessage& message) {
  if (!reliable()) return;
  Arena& theirs = *peer_->arena_;
  if (message.opcode == IBV_WR_RDMA_READ) {
    arena_->Expect(message.local, theirs.at(message.remote), message.length);
    if (!arena_->HoldsWhatIsExpected(message.local, message.length)) Violate("READ: wrong bytes");
  } else if (message.is_atomic()) {
    uint8_t bytes[8];
    WordBefore(message, bytes);
    arena_->Expect(message.local, bytes, 8);
    if (!arena_->HoldsWhatIsExpected(message.local, 8)) Violate("atomic found a wrong value");
  } else if (message.is_write()) {
    theirs.Expect(message.remote, arena_->at(message.local), message.length);
    if (!theirs.HoldsWhatIsExpected(message.remote, message.length)) Violate("WRITE: wrong bytes");
  }
}

void FailingEnd::OnReceiveCompletion(const ibv_wc& wc) {
  const bool shared = host_.srq() != nullptr;
  Arena& arena = shared ? host_.arena() : *arena_;
  if (!shared) {
    if (wc.wr_id != receives_completed_ || receives_completed_ == receives_posted_) {
      Violate(
          absl::StrFormat("receive %d completes when %d is due", wc.wr_id, receives_completed_));
      return;
    }
    ++receives_completed_;
  }
  const size_t place = shared ? host_.SharedPlace(wc.wr_id) : ReceivePlace(wc.wr_id);
  if (wc.status == IBV_WC_SUCCESS) {
    if (receive_failed_) Violate("a receive succeeds after one that failed");
    OnReceived(wc, arena, place);
  } else {
    if (wc.status != IBV_WC_WR_FLUSH_ERR &&
        (receive_failed_ || !MayFailReceive(fault(), wc.status))) {
      Violate(absl::StrFormat("receive %d: status %d", wc.wr_id, wc.status));
    }
    receive_failed_ = true;
  }
  // A message that came in part may have left anything in the buffer, but nothing beyond.
  arena.Expect(place, arena.at(place), ReceiveBytes());
}

void FailingEnd::OnReceived(const ibv_wc& wc, Arena& arena, size_t place) {
  const uint8_t* data = arena.at(place) + grh_bytes();
  if (const FailingMessage* message = Match(wc, data); message == nullptr) {
    Violate(absl::StrFormat("receive %d: no such message was sent (%d bytes, flags %d)", wc.wr_id,
                            wc.byte_len, wc.wc_flags));
  }
  ++received_;
  // Of a reliable connection a receive holds one message and nothing else.
  const size_t used = wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
  if (reliable() && !arena.HoldsWhatIsExpected(place + used, ReceiveBytes() - used)) {
    Violate(absl::StrFormat("receive %d: written beyond the message", wc.wr_id));
  }
  if (type_ != IBV_QPT_UD) return;
  // ibv_post_recv(3): the GRH area is the IPv6 header, or its last 20 bytes are the IPv4 header.
  constexpr size_t kIpv4Source = 20 + 12, kIpv6Source = 8;
  Gid sender;
  std::memcpy(sender.raw.data(), arena.at(place) + kIpv6Source, sender.raw.size());
  const Gid peer = peer_->host_.node().gid();
  if (peer.IsIpv4()) sender = Gid::FromIpv4(LoadBe32(arena.at(place) + kIpv4Source));
  if ((wc.wc_flags & IBV_WC_GRH) == 0 || wc.src_qp != peer_->qpn_.value || sender != peer) {
    Violate("a datagram names another sender");
  }
}

// The peer's message that has come: the next of a reliable connection; of others each at most once
// and in order, unless the network repeats and reorders.
const FailingMessage* FailingEnd::Match(const ibv_wc& wc, const uint8_t* data) {
  std::vector<FailingMessage>& sent = peer_->messages_;
  const bool any = !reliable() && !in_order_;
  for (size_t i = any ? 0 : matched_; i < peer_->posted_; ++i) {
    if (!sent[i].takes_receive()) continue;
    if (IsIt(sent[i], wc, data)) {
      matched_ = std::max(matched_, i + 1);
      sent[i].received = true;
      if (sent[i].is_write()) {
        arena_->Expect(sent[i].remote, arena_->at(sent[i].remote), sent[i].length);
      }
      return &sent[i];
    }
    if (reliable()) break;
  }
  return nullptr;
}

bool FailingEnd::IsIt(const FailingMessage& message, const ibv_wc& wc, const uint8_t* data) {
  if (wc.opcode != (message.is_write() ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
      wc.byte_len != grh_bytes() + message.length ||
      ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != message.has_immediate() ||
      (message.has_immediate() && wc.imm_data != message.immediate)) {
    return false;
  }
  const uint8_t* at = message.is_write() ? arena_->at(message.remote) : data;
  return std::equal(at, at + message.length, peer_->arena_->at(message.local));
}

void FailingEnd::SettleMemory() {
  // What died with its queue pair may have been written to.
  for (size_t i = receives_completed_; i < receives_posted_; ++i) {
    const size_t place = ReceivePlace(i);
    arena_->Expect(place, arena_->at(place), ReceiveBytes());
  }
  for (size_t i = 0; i < posted_; ++i) {
    const bool certain = reliable() ? i < succeeded_ : messages_[i].received;
    if (!certain) CheckUnfinished(messages_[i]);
  }
  if (!reliable()) return;
  // How many of its atomics and ATOMIC WRITEs were executed: all that it knows of, perhaps more.
  Arena& theirs = *peer_->arena_;
  uint64_t expected = 0, word;
  std::memcpy(&word, theirs.at(peer_->word_), 8);
  bool known = false;
  for (size_t i = 0; i < posted_; ++i) {
    known |= i >= succeeded_ && expected == word;
    expected = messages_[i].WordAfter(expected);
  }
  known |= expected == word;
  if (!known) Violate("the word that atomics change has a value that it never had");
  theirs.Expect(peer_->word_, theirs.at(peer_->word_), 8);
  if (!peer_->host_.overran() && peer_->received_ < ReceivesSentFor(succeeded_)) {
    Violate(absl::StrFormat("%d messages received, %d acknowledged", peer_->received_,
                            ReceivesSentFor(succeeded_)));
  }
}

uint64_t FailingEnd::lost_messages() const {
  if (reliable()) return 0;
  return static_cast<uint64_t>(std::count_if(
      messages_.begin(), messages_.begin() + static_cast<ptrdiff_t>(succeeded_),
      [](const FailingMessage& message) { return message.takes_receive() && !message.received; }));
}

void FailingEnd::CheckMemory() {
  if (const std::string difference = arena_->Difference(); !difference.empty()) {
    Violate(absl::StrCat("memory outside of all messages changed: ", difference));
  }
}

// It may have been executed, in part too: each byte is the old one or the new one.
void FailingEnd::CheckUnfinished(const FailingMessage& message) {
  Arena& theirs = *peer_->arena_;
  const auto settle = [&](Arena& at, size_t offset, const uint8_t* data, uint32_t length) {
    if (!at.HoldsOldOrNew(offset, data, length)) Violate("bytes that nobody wrote");
    at.Expect(offset, at.at(offset), length);
  };
  if (message.is_write()) {
    settle(theirs, message.remote, arena_->at(message.local), message.length);
  } else if (message.opcode == IBV_WR_RDMA_READ) {
    settle(*arena_, message.local, theirs.at(message.remote), message.length);
  } else if (message.is_atomic()) {
    uint8_t bytes[8];
    WordBefore(message, bytes);
    settle(*arena_, message.local, bytes, 8);
  }
}

}  // namespace pollux::sim
