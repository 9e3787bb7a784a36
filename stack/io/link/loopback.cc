#include "stack/io/link/loopback.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "stack/wire/roce_packet.h"

namespace pollux::io {
namespace {

// A MAC address as the upper six bytes of a word, whose lowest two bytes are zero.
uint64_t MacWord(const uint8_t* mac) {
  uint64_t word = 0;
  std::memcpy(&word, mac, sizeof(MacAddress));
  return word << 16;
}

// Whether `frame` is for the address of MacWord() `mac`. The first eight bytes are in the frame's
// buffer, even if it is shorter.
bool IsFor(uint64_t mac, const rte_mbuf* frame) {
  uint64_t begin;
  std::memcpy(&begin, rte_pktmbuf_mtod(frame, const uint8_t*), sizeof begin);
  return begin << 16 == mac;
}

}  // namespace

bool Loopback::IsOwn(const rte_mbuf* frame) const { return IsFor(MacWord(mac_->data()), frame); }

bool Loopback::IsForProcesses(const rte_mbuf* frame) const {
  if (processes_ == nullptr) return false;
  const auto* const bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  if (!wire::IsRoceFrame(bytes, frame->data_len)) return false;
  const std::optional<Qpn> qpn = wire::DestinationQpn(bytes, frame->data_len);
  return qpn && (*qpn == kGsiQpn || !layout_.Holds(*qpn));
}

bool Loopback::TurnBack(rte_mbuf* frame) {
  if (count_ == kCapacity) return false;
  rte_mbuf* copy = rte_pktmbuf_copy(frame, pool_, 0, UINT32_MAX);
  rte_pktmbuf_free(frame);
  if (copy == nullptr || copy->nb_segs != 1) {
    rte_pktmbuf_free(copy);
    ++counters_.no_buffer;
    return true;
  }
  queue_[(head_ + count_++) % kCapacity] = copy;
  ++counters_.passed;
  return true;
}

uint16_t Loopback::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  if (count == 1 && !IsOwn(frames[0])) [[likely]]
    return link_->Send(frames, 1, now_ns);
  return SendSeveral(frames, count, now_ns);
}

// Out of line, so that Send() saves no registers for a single frame.
[[gnu::noinline]] uint16_t Loopback::SendSeveral(rte_mbuf** frames, uint16_t count,
                                                 uint64_t now_ns) {
  const uint64_t own = MacWord(mac_->data());
  uint16_t foreign = 0;
  while (foreign < count && !IsFor(own, frames[foreign])) ++foreign;
  if (foreign == count) [[likely]]
    return link_->Send(frames, count, now_ns);
  return SendMixed(frames, count, now_ns);
}

uint16_t Loopback::SendMixed(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  uint16_t sent = 0;
  while (sent < count) {
    const auto own =
        static_cast<uint16_t>(std::find_if(frames + sent, frames + count,
                                           [this](const rte_mbuf* frame) { return IsOwn(frame); }) -
                              frames);
    if (own > sent) {
      sent += link_->Send(frames + sent, own - sent, now_ns);
      if (sent < own) break;
    }
    if (sent == count) break;
    if (IsForProcesses(frames[sent])) {
      sent += SendToProcesses(frames + sent, count - sent, now_ns);
    } else if (TurnBack(frames[sent])) {
      ++sent;
    } else {
      break;
    }
  }
  return sent;
}

uint16_t Loopback::SendToProcesses(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  uint16_t end = 1;
  while (end < count && IsOwn(frames[end]) && IsForProcesses(frames[end])) ++end;
  const uint16_t sent = processes_->Send(frames, end, now_ns);
  counters_.to_processes += sent;
  // The interface may be down. The wire need not wait for it.
  counters_.to_processes_lost += end - sent;
  for (uint16_t i = sent; i < end; ++i) rte_pktmbuf_free(frames[i]);
  return end;
}

uint16_t Loopback::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  if (count_ == 0 && processes_ == nullptr) [[likely]]
    return link_->Receive(frames, capacity, now_ns);
  return ReceiveLooped(frames, capacity, now_ns);
}

uint16_t Loopback::ReceiveLooped(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  // Half of a burst at most, so that the wire is heard too.
  const uint16_t looped = std::min<uint16_t>(count_, (capacity + 1) / 2);
  for (uint16_t i = 0; i < looped; ++i) {
    frames[i] = queue_[head_];
    head_ = (head_ + 1) % kCapacity;
  }
  count_ -= looped;
  uint16_t received = looped;
  if (processes_ != nullptr) {
    // Half of the rest, for the same reason.
    const uint16_t others =
        processes_->Receive(frames + received, (capacity - received + 1) / 2, now_ns);
    counters_.from_processes += others;
    received += others;
  }
  return received + link_->Receive(frames + received, capacity - received, now_ns);
}

void Loopback::Clear() {
  for (; count_ > 0; --count_) {
    rte_pktmbuf_free(queue_[head_]);
    head_ = (head_ + 1) % kCapacity;
  }
}

}  // namespace pollux::io
