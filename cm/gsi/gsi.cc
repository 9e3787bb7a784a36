#include "cm/gsi/gsi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cm/gsi/mad_frame.h"
#include "stack/base/byte_order.h"
#include "stack/base/memory_reserve.h"

namespace pollux::cm {
namespace {

constexpr size_t kGrhBytes = 40;
constexpr size_t kIpv4InGrh = 20;  // an IPv4 header stands at the end of the area
constexpr size_t kIpv4SourceInHeader = 12;
constexpr size_t kIpv6SourceInHeader = 8;
constexpr uint8_t kHopLimit = 64;
constexpr uint64_t kSendFlag = uint64_t{1} << 32;  // in a wr_id: slot of a send, not of a receive

struct Addresses {
  Gid from;
  Gid to;
};

// Who sent a datagram to whom, from the area before it. Nothing when there is no IP header.
std::optional<Addresses> AddressesOf(std::span<const uint8_t, kGrhBytes> grh) {
  Addresses addresses;
  if (grh[0] >> 4 == 6) {
    const auto* source = grh.data() + kIpv6SourceInHeader;
    std::copy_n(source, 16, addresses.from.raw.begin());
    std::copy_n(source + 16, 16, addresses.to.raw.begin());
    return addresses;
  }
  if (grh[kIpv4InGrh] >> 4 != 4) return std::nullopt;
  const auto* source = grh.data() + kIpv4InGrh + kIpv4SourceInHeader;
  addresses.from = Gid::FromIpv4(LoadBe32(source));
  addresses.to = Gid::FromIpv4(LoadBe32(source + 4));
  return addresses;
}

}  // namespace

struct Gsi::Buffers {
  std::array<std::array<uint8_t, kGrhBytes + kMadBytes>, kReceives> receives;
  std::array<MadBuffer, kSends> sends;
};

Gsi::Gsi(engine::Worker* worker, Counters* counters)
    : worker_(worker),
      counters_(counters),
      buffers_(std::make_unique<Buffers>()),
      peer_of_send_(kSends) {
  free_sends_.reserve(kSends);
  for (uint32_t slot = kSends; slot > 0; --slot) free_sends_.push_back(slot - 1);
  peers_.reserve(kMaxPeers);
}

absl::StatusOr<std::unique_ptr<Gsi>> Gsi::Create(engine::Worker* worker, Counters* counters) {
  std::unique_ptr<Gsi> gsi(new Gsi(worker, counters));
  if (absl::Status status = gsi->Init(); !status.ok()) return status;
  return gsi;
}

absl::Status Gsi::Init() {
  const auto pd = worker_->AllocPd();
  if (!pd.ok()) return pd.status();
  pd_ = *pd;
  const auto cq = worker_->CreateCq(kReceives + kSends);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  const auto region = worker_->RegMr(pd_, buffers_.get(), sizeof(Buffers), IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  region_ = *region;
  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_UD;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = kSends;
  init.cap.max_recv_wr = kReceives;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = true;
  const auto qp = worker_->CreateGsiQp(std::move(init));
  if (!qp.ok()) return qp.status();
  qp_ = *qp;
  for (uint32_t slot = 0; slot < kReceives; ++slot) {
    if (absl::Status status = PostReceive(slot); !status.ok()) return status;
  }
  return absl::OkStatus();
}

Gsi::~Gsi() {
  // The queue pair first: what is posted names the rest.
  if (qp_ != nullptr) worker_->DestroyQp(qp_).IgnoreError();
  for (const Peer& peer : peers_) {
    if (peer.ah != nullptr) worker_->DestroyAh(peer.ah).IgnoreError();
  }
  if (region_.key != 0) worker_->DeregMr(region_).IgnoreError();
  if (cq_ != nullptr) worker_->DestroyCq(cq_).IgnoreError();
  if (pd_ != nullptr) worker_->DeallocPd(pd_).IgnoreError();
}

absl::Status Gsi::PostReceive(uint32_t slot) {
  auto& buffer = buffers_->receives[slot];
  ibv_sge sge{};
  sge.addr = reinterpret_cast<uint64_t>(buffer.data());
  sge.length = buffer.size();
  sge.lkey = region_.key;
  ibv_recv_wr wr{};
  wr.wr_id = slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const ibv_recv_wr* bad = nullptr;
  if (const int error = qp_->PostRecv(&wr, &bad); error != 0) {
    return absl::InternalError(
        absl::StrCat("cannot post a receive to queue pair 1: ", strerror(error)));
  }
  return absl::OkStatus();
}

bool Gsi::Send(uint8_t gid_index, const Gid& to, const MadBuffer& mad) {
  if (!free_sends_.empty() && waiting_.empty()) return PostSend(gid_index, to, mad);
  const auto from = worker_->interface().QueryGid(gid_index);
  // They are the peers' to make more of: memory that is short is not for them.
  if (waiting_.size() == kWaiting || !from.ok() || !MemoryReserve::IsWhole()) {
    counters_->Count(MadDrop::kSendQueueFull);
    return false;
  }
  waiting_.push_back({*from, to, mad});
  return true;
}

void Gsi::SendWaiting() {
  for (; !waiting_.empty() && !free_sends_.empty(); waiting_.pop_front()) {
    const Waiting& next = waiting_.front();
    // Without it the address that it was to leave from is this host's no more.
    const auto gid_index = worker_->interface().GidIndex(next.from);
    if (gid_index) PostSend(*gid_index, next.to, next.mad);
  }
}

bool Gsi::PostSend(uint8_t gid_index, const Gid& to, const MadBuffer& mad) {
  const absl::StatusOr<size_t> peer = PeerIndex(gid_index, to);
  if (!peer.ok()) {
    counters_->Count(MadDrop::kSendQueueFull);
    return false;
  }
  const uint32_t slot = free_sends_.back();
  buffers_->sends[slot] = mad;
  ibv_sge sge{};
  sge.addr = reinterpret_cast<uint64_t>(buffers_->sends[slot].data());
  sge.length = kMadBytes;
  sge.lkey = region_.key;
  ibv_send_wr wr{};
  wr.wr_id = kSendFlag | slot;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud.ah = peers_[*peer].ah;
  wr.wr.ud.remote_qpn = kGsiQpn.value;
  wr.wr.ud.remote_qkey = kGsiQkey;
  const ibv_send_wr* bad = nullptr;
  if (qp_->PostSend(&wr, &bad) != 0) {
    counters_->Count(MadDrop::kSendQueueFull);
    return false;
  }
  free_sends_.pop_back();
  peer_of_send_[slot] = *peer;
  ++peers_[*peer].in_flight;
  return true;
}

size_t Gsi::EmitFrame(uint8_t gid_index, const Gid& to, const MadBuffer& mad, uint8_t* frame) {
  if (!IsResolved(gid_index, to)) return 0;
  return EmitMadFrame(*peers_[peer_index_[KeyOf(gid_index, to)]].ah, mad, frame);
}

bool Gsi::Poll(Receiver receiver) {
  // All that there are: sends that complete must not leave arrivals without a receive.
  std::array<ibv_wc, kReceives + kSends> completions;
  const int count = cq_->Poll(static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const auto slot = static_cast<uint32_t>(wc.wr_id);
    if ((wc.wr_id & kSendFlag) != 0) {
      const size_t at = peer_of_send_[slot];
      if (--peers_[at].in_flight == 0 && !IsCurrent(at)) DestroyPath(peers_[at]);
      free_sends_.push_back(slot);
      continue;
    }
    if (wc.status != IBV_WC_SUCCESS) continue;
    OnReceived(wc, receiver);
    PostReceive(slot).IgnoreError();  // the slot has just come free, so there is room
  }
  if (!waiting_.empty()) SendWaiting();
  return count > 0;
}

void Gsi::OnReceived(const ibv_wc& wc, Receiver receiver) {
  const auto& buffer = buffers_->receives[static_cast<uint32_t>(wc.wr_id)];
  const std::span<const uint8_t> bytes(buffer.data(), std::min<size_t>(wc.byte_len, buffer.size()));
  if (bytes.size() < kGrhBytes) return counters_->Count(MadDrop::kBadLength);
  const std::optional<Addresses> addresses = AddressesOf(bytes.first<kGrhBytes>());
  if (!addresses || wc.src_qp != kGsiQpn.value) return counters_->Count(MadDrop::kBadSource);
  receiver(addresses->from, addresses->to, bytes.subspan(kGrhBytes));
}

absl::Status Gsi::StartResolve(uint8_t gid_index, const Gid& to) {
  FollowInterface();
  const PeerKey key = KeyOf(gid_index, to);
  const auto known = peer_index_.find(key);
  if (known != peer_index_.end()) {
    Peer& peer = peers_[known->second];
    if (peer.ah->link->Load().resolved || peer.in_flight > 0) return absl::OkStatus();
    // A new address handle asks anew for one that has not answered.
    DestroyPath(peer);
    peer_index_.erase(known);
  }
  return PeerIndex(gid_index, to).status();
}

// Another may have taken its place: then its neighbour is asked for again, or known by now.
bool Gsi::IsResolved(uint8_t gid_index, const Gid& to) {
  const absl::StatusOr<size_t> place = PeerIndex(gid_index, to);
  return place.ok() && peers_[*place].ah->link->Load().resolved;
}

Gsi::PeerKey Gsi::KeyOf(uint8_t gid_index, const Gid& to) const {
  return {worker_->interface().QueryGid(gid_index).value_or(Gid{}).raw, to.raw};
}

void Gsi::FollowInterface() {
  const uint32_t version = worker_->interface().address_version();
  if (std::exchange(address_version_, version) == version) return;
  peer_index_.clear();
  for (Peer& peer : peers_) {
    if (peer.ah != nullptr && peer.in_flight == 0) DestroyPath(peer);
  }
}

bool Gsi::IsCurrent(size_t at) const {
  const auto known = peer_index_.find(peers_[at].key);
  return known != peer_index_.end() && known->second == at;
}

void Gsi::DestroyPath(Peer& peer) {
  worker_->DestroyAh(peer.ah).IgnoreError();
  peer.ah = nullptr;
}

absl::StatusOr<size_t> Gsi::PeerIndex(uint8_t gid_index, const Gid& to) {
  FollowInterface();
  const PeerKey key = KeyOf(gid_index, to);
  const auto known = peer_index_.find(key);
  if (known != peer_index_.end()) return known->second;
  absl::StatusOr<size_t> place = FreePeer();
  if (!place.ok()) return place;
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.hop_limit = kHopLimit;
  attr.grh.sgid_index = gid_index;
  std::copy(key.second.begin(), key.second.end(), attr.grh.dgid.raw);
  const absl::StatusOr<verbs::AddressHandle*> ah = worker_->CreateAh(pd_, attr);
  if (!ah.ok()) return ah.status();
  peers_[*place] = {.key = key, .ah = *ah, .in_flight = 0};
  peer_index_[key] = *place;
  return place;
}

absl::StatusOr<size_t> Gsi::FreePeer() {
  for (size_t tried = 0; tried < peers_.size(); ++tried) {
    const size_t at = (next_victim_ + tried) % peers_.size();
    Peer& peer = peers_[at];
    if (peer.ah == nullptr) return at;
    if (peers_.size() < kMaxPeers || peer.in_flight > 0) continue;
    peer_index_.erase(peer.key);
    DestroyPath(peer);
    next_victim_ = (at + 1) % peers_.size();
    return at;
  }
  if (peers_.size() == kMaxPeers) {
    return absl::ResourceExhaustedError(
        "queue pair 1: a MAD is being sent with every address handle");
  }
  peers_.emplace_back();
  return peers_.size() - 1;
}

}  // namespace pollux::cm
