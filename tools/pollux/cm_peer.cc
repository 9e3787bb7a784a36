#include "tools/pollux/cm_peer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr size_t kGrhBytes = 40;
constexpr size_t kIpv4InGrh = 20;
constexpr uint64_t kReceive = 1;  // a wr_id
constexpr uint64_t kSend = 2;
constexpr uint32_t kResolveTimeoutMs = 2000;
constexpr uint64_t kGoodbyeNs = 12'000'000'000;  // two more DREQs
// With the DREQ the queue pair ends and repeats no acknowledgement any more: where that and the
// DREQ are lost, the other side takes its last message for lost. Long enough for several of its
// probes.
constexpr uint64_t kLingerNs = 300'000'000;

// Who sent a datagram, and to which of our addresses, from the area before it.
std::pair<Gid, Gid> AddressesOf(const uint8_t* grh) {
  Gid from, to;
  if (grh[0] >> 4 == 6) {
    std::copy_n(grh + 8, 16, from.raw.begin());
    std::copy_n(grh + 24, 16, to.raw.begin());
    return {from, to};
  }
  from = to = Gid::FromIpv4(0);
  std::copy_n(grh + kIpv4InGrh + 12, 4, from.raw.begin() + 12);
  std::copy_n(grh + kIpv4InGrh + 16, 4, to.raw.begin() + 12);
  return {from, to};
}

absl::Status Failed(const cm::Event& event) {
  const std::string name = rdma_event_str(event.type);
  if (event.type == RDMA_CM_EVENT_REJECTED) {
    return absl::UnavailableError(
        absl::StrCat(name, ": ", cm::RejectReasonName(static_cast<uint16_t>(event.status)),
                     " (REJ reason ", event.status, ")"));
  }
  if (event.type == RDMA_CM_EVENT_UNREACHABLE && event.status > 0) {
    return absl::UnavailableError(
        absl::StrCat(name, ": ", cm::SidrStatusName(static_cast<uint8_t>(event.status)),
                     " (SIDR_REP status ", event.status, ")"));
  }
  return absl::UnavailableError(absl::StrCat(
      name, ": ", event.status < 0 ? std::strerror(-event.status) : "the connection ended early"));
}

}  // namespace

struct CmPeer::Channel {
  cm::Id* id = nullptr;
  memory::ProtectionDomain* pd = nullptr;
  verbs::CompletionQueue* cq = nullptr;
  verbs::QueuePair* qp = nullptr;
  memory::MemoryRegion region;
  std::vector<uint8_t> memory;  // what is received, then what is sent
  verbs::AddressHandle* ah = nullptr;
  uint32_t remote_qpn = 0;
  uint32_t remote_qkey = RDMA_UDP_QKEY;
  cm::ConnectionParam param;
  bool connected = false;
  bool disconnected = false;
  uint32_t sent = 0;
  uint32_t received = 0;
};

CmPeer::CmPeer(engine::Worker* worker, cm::Manager* manager, Options options)
    : worker_(worker), manager_(manager), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<CmPeer>> CmPeer::Start(engine::Worker* worker, cm::Manager* manager,
                                                      Options options) {
  std::unique_ptr<CmPeer> peer(new CmPeer(worker, manager, std::move(options)));
  absl::Status status = peer->Begin();
  worker->AddPoller(peer.get());
  if (!status.ok()) return status;
  return peer;
}

CmPeer::~CmPeer() {
  worker_->RemovePoller(this);
  for (const auto& channel : channels_) TakeDown(*channel);
  if (listener_ != nullptr) manager_->DestroyId(listener_);
}

absl::Status CmPeer::Begin() {
  if (options_.messages == 0 || options_.bytes == 0) options_.messages = options_.bytes = 0;
  const uint32_t mtu = 128u << worker_->interface().active_mtu();
  if (is_ud() && options_.bytes > mtu) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages of ", options_.bytes, " bytes do not fit into datagrams of ", mtu));
  }
  const auto handler = [this](const cm::Event& event) { OnEvent(event); };
  if (!is_client()) {
    auto id = manager_->CreateId(options_.port_space, handler);
    if (!id.ok()) return id.status();
    listener_ = *id;
    if (absl::Status status = manager_->BindAddr(listener_, options_.local); !status.ok()) {
      return status;
    }
    return manager_->Listen(listener_, 0);
  }
  idle_since_ns_ = worker_->now_ns();
  Step("connecting");
  for (uint32_t i = 0; i < options_.connections; ++i) {
    auto id = manager_->CreateId(options_.port_space, handler);
    if (!id.ok()) return id.status();
    channels_.push_back(std::make_unique<Channel>());
    Channel& channel = *channels_.back();
    channel.id = *id;
    channel.id->context = &channel;
    if (options_.local.address != Gid{}) {
      absl::Status bound = manager_->BindAddr(*id, {options_.local.address, 0});
      if (!bound.ok()) return bound;
    }
    absl::Status status = manager_->ResolveAddr(*id, *options_.server, kResolveTimeoutMs);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void CmPeer::OnEvent(const cm::Event& event) {
  idle_since_ns_ = worker_->now_ns();
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return OnRequest(event);
  if (phase_ == Phase::kDone) return;
  // Of the listener, too.
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) return Done(Failed(event));
  absl::Status status = OnProgress(*static_cast<Channel*>(event.id->context), event);
  if (!status.ok()) Done(std::move(status));
}

void CmPeer::OnRequest(const cm::Event& event) {
  if (phase_ != Phase::kConnecting || channels_.size() == options_.connections) {
    manager_->Reject(event.id, {}).IgnoreError();
    return manager_->DestroyId(event.id);
  }
  channels_.push_back(std::make_unique<Channel>());
  Channel& channel = *channels_.back();
  channel.id = event.id;
  channel.id->context = &channel;
  // All that the client offers.
  channel.param = event.param;
  channel.param.private_data = {};
  Bind(channel);
}

absl::Status CmPeer::OnProgress(Channel& channel, const cm::Event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (options_.type_of_service) {
        absl::Status status = manager_->SetTypeOfService(channel.id, *options_.type_of_service);
        if (!status.ok()) return status;
      }
      return manager_->ResolveRoute(channel.id, kResolveTimeoutMs);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      channel.param.responder_resources = channel.param.initiator_depth = 1;
      channel.param.retry_count = 5;
      Bind(channel);
      return absl::OkStatus();
    case RDMA_CM_EVENT_ESTABLISHED:
      if (is_ud()) {
        auto ah = worker_->CreateAh(channel.pd, event.ud.ah_attr);
        if (!ah.ok()) return ah.status();
        channel.ah = *ah;
        channel.remote_qpn = event.ud.qp_num;
        channel.remote_qkey = event.ud.qkey;
      }
      SetConnected(channel);
      return absl::OkStatus();
    case RDMA_CM_EVENT_DISCONNECTED:
      // What came before the DREQ counts.
      while (PollChannel(channel)) {
      }
      if (channel.received < options_.messages) return Failed(event);
      channel.disconnected = true;
      ++totals_.disconnected;
      return absl::OkStatus();
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return absl::OkStatus();
    default:
      return Failed(event);
  }
}

absl::Status CmPeer::MakeQp(Channel& channel) {
  auto pd = worker_->AllocPd();
  if (!pd.ok()) return pd.status();
  channel.pd = *pd;
  const uint32_t depth = std::max(options_.messages, 1u);
  auto cq = worker_->CreateCq(2 * depth);
  if (!cq.ok()) return cq.status();
  channel.cq = *cq;
  channel.memory.assign(kGrhBytes + 2 * size_t{options_.bytes}, 'p');
  auto region = worker_->RegMr(channel.pd, channel.memory.data(), channel.memory.size(),
                               IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  channel.region = *region;
  verbs::QueuePairInitAttr init;
  init.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC;
  init.pd = channel.pd;
  init.send_cq = init.recv_cq = channel.cq;
  init.cap.max_send_wr = init.cap.max_recv_wr = depth;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = true;
  init.on_event = [this, &channel](ibv_event_type event) {
    if (channel.id != nullptr) manager_->Notify(channel.id, event);
  };
  auto qp = worker_->CreateQp(std::move(init));
  if (!qp.ok()) return qp.status();
  channel.qp = *qp;
  return absl::OkStatus();
}

void CmPeer::Bind(Channel& channel) {
  if (absl::Status status = MakeQp(channel); !status.ok()) return Done(std::move(status));
  manager_->BindQp(channel.id, worker_, channel.qp, IBV_ACCESS_LOCAL_WRITE,
                   [this, &channel](absl::Status status) {
                     if (status.ok()) status = OnBound(channel);
                     if (!status.ok()) Done(std::move(status));
                   });
}

absl::Status CmPeer::OnBound(Channel& channel) {
  if (absl::Status status = PostReceives(channel); !status.ok()) return status;
  if (is_client()) return manager_->Connect(channel.id, channel.param);
  if (absl::Status status = manager_->Accept(channel.id, channel.param); !status.ok()) {
    return status;
  }
  // Of an answered SIDR_REQ nothing more is heard.
  if (is_ud()) SetConnected(channel);
  return absl::OkStatus();
}

absl::Status CmPeer::PostReceives(Channel& channel) {
  // All of them in one place: what is in the messages is nobody's concern.
  ibv_sge sge{reinterpret_cast<uint64_t>(channel.memory.data()),
              static_cast<uint32_t>(options_.bytes + (is_ud() ? kGrhBytes : 0)),
              channel.region.key};
  ibv_recv_wr wr{};
  wr.wr_id = kReceive;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  for (uint32_t i = 0; i < options_.messages; ++i) {
    const ibv_recv_wr* bad = nullptr;
    if (const int error = channel.qp->PostRecv(&wr, &bad); error != 0) {
      return absl::InternalError(absl::StrCat("ibv_post_recv: ", std::strerror(error)));
    }
  }
  return absl::OkStatus();
}

absl::Status CmPeer::PostSends(Channel& channel) {
  ibv_sge sge{
      reinterpret_cast<uint64_t>(channel.memory.data() + kGrhBytes + size_t{options_.bytes}),
      options_.bytes, channel.region.key};
  ibv_send_wr wr{};
  wr.wr_id = kSend;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (is_ud()) {
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htobe32(channel.qp->qpn().value);
    wr.wr.ud.ah = channel.ah;
    wr.wr.ud.remote_qpn = channel.remote_qpn;
    wr.wr.ud.remote_qkey = channel.remote_qkey;
  }
  for (uint32_t i = 0; i < options_.messages; ++i) {
    const ibv_send_wr* bad = nullptr;
    if (const int error = channel.qp->PostSend(&wr, &bad); error != 0) {
      return absl::InternalError(absl::StrCat("ibv_post_send: ", std::strerror(error)));
    }
  }
  return absl::OkStatus();
}

absl::Status CmPeer::MakeReplyAddress(Channel& channel, const ibv_wc& wc) {
  const auto [from, to] = AddressesOf(channel.memory.data());
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  std::copy(from.raw.begin(), from.raw.end(), attr.grh.dgid.raw);
  for (int index = 0; index < 256; ++index) {
    const absl::StatusOr<Gid> own = worker_->interface().QueryGid(index);
    if (!own.ok()) break;
    if (*own == to) attr.grh.sgid_index = static_cast<uint8_t>(index);
  }
  auto ah = worker_->CreateAh(channel.pd, attr);
  if (!ah.ok()) return ah.status();
  channel.ah = *ah;
  channel.remote_qpn = be32toh(wc.imm_data);
  return absl::OkStatus();
}

void CmPeer::SetConnected(Channel& channel) {
  channel.connected = true;
  ++totals_.connected;
}

absl::Status CmPeer::OnCompletion(Channel& channel, const ibv_wc& wc) {
  // What a disconnected queue pair flushes tells nothing; the end itself follows.
  if (wc.status == IBV_WC_WR_FLUSH_ERR) return absl::OkStatus();
  if (wc.status != IBV_WC_SUCCESS) {
    return absl::InternalError(
        absl::StrCat("a work request failed: ", ibv_wc_status_str(wc.status)));
  }
  if (wc.wr_id == kSend) {
    ++channel.sent;
    ++totals_.messages_sent;
    return absl::OkStatus();
  }
  ++channel.received;
  ++totals_.messages_received;
  if (is_ud() && channel.ah == nullptr) return MakeReplyAddress(channel, wc);
  return absl::OkStatus();
}

bool CmPeer::PollChannel(Channel& channel) {
  if (channel.cq == nullptr) return false;
  std::array<ibv_wc, 16> completions;
  const int count = channel.cq->Poll(static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count; ++i) {
    absl::Status status = OnCompletion(channel, completions[static_cast<size_t>(i)]);
    if (!status.ok()) Done(std::move(status));
  }
  return count > 0;
}

bool CmPeer::Poll(uint64_t now_ns) {
  bool busy = false;
  if (phase_ == Phase::kDone) return false;
  for (const auto& channel : channels_) busy |= PollChannel(*channel);
  if (busy) idle_since_ns_ = now_ns;
  Advance();
  // All data has been exchanged. A DREP that is lost with the client's exit comes no more, nor does
  // the DREQ of a server that has left.
  if (phase_ == Phase::kDisconnecting && AllSent() && now_ns > *idle_since_ns_ + kGoodbyeNs) {
    Step("disconnected, not everywhere with an answer");
    Done(absl::OkStatus());
  }
  if (phase_ != Phase::kDone && idle_since_ns_ && now_ns > *idle_since_ns_ + options_.idle_ns) {
    Done(absl::DeadlineExceededError(absl::StrCat(
        "nothing came for ", options_.idle_ns / 1'000'000, " ms: ", totals_.connected, " of ",
        options_.connections, " connected, ", totals_.messages_received, " of ",
        uint64_t{options_.connections} * options_.messages, " messages received")));
  }
  return busy;
}

bool CmPeer::AllReceived() const {
  return std::ranges::all_of(
      channels_, [&](const auto& channel) { return channel->received == options_.messages; });
}

bool CmPeer::AllSent() const {
  return std::ranges::all_of(
      channels_, [&](const auto& channel) { return channel->sent == options_.messages; });
}

bool CmPeer::HasLingered() const {
  return is_ud() || options_.messages == 0 || worker_->now_ns() >= *idle_since_ns_ + kLingerNs;
}

void CmPeer::PostAll() {
  for (const auto& channel : channels_) {
    if (absl::Status status = PostSends(*channel); !status.ok()) return Done(std::move(status));
  }
}

void CmPeer::Advance() {
  if (phase_ == Phase::kConnecting && totals_.connected == options_.connections) {
    phase_ = Phase::kExchanging;
    if (options_.messages > 0)
      Step(sends_first() ? "initiating data transfers" : "receiving data transfers");
    if (sends_first()) PostAll();
  }
  if (phase_ == Phase::kExchanging && AllReceived() && (!sends_first() || AllSent())) {
    phase_ = Phase::kReplying;
    if (!sends_first()) {
      if (options_.messages > 0) Step("sending replies");
      PostAll();
    }
  }
  // A reliable connection takes its replies with it; the other side ends it when it has them.
  if (phase_ == Phase::kReplying && ((!is_ud() && is_client()) || (AllSent() && HasLingered()))) {
    BeginToEnd();
  }
  if (phase_ == Phase::kDisconnecting && totals_.disconnected == options_.connections) {
    Step("disconnected");
    Done(absl::OkStatus());
  }
}

void CmPeer::BeginToEnd() {
  if (options_.messages > 0) Step("data transfers complete");
  if (is_ud()) return Done(absl::OkStatus());
  phase_ = Phase::kDisconnecting;
  if (is_client()) return;
  Step("disconnecting");
  // A client that has left already is no failure.
  for (const auto& channel : channels_) manager_->Disconnect(channel->id).IgnoreError();
}

void CmPeer::Step(const std::string& words) {
  if (options_.on_step) options_.on_step(words);
}

void CmPeer::Done(absl::Status status) {
  if (std::exchange(phase_, Phase::kDone) != Phase::kDone) options_.on_done(status);
}

void CmPeer::TakeDown(Channel& channel) {
  manager_->DestroyId(std::exchange(channel.id, nullptr));
  // Nothing can be done about what does not go, and nothing waits for it.
  if (channel.qp != nullptr) {
    worker_->DestroyQp(channel.qp, manager_->time_wait_ns()).IgnoreError();
  }
  if (channel.ah != nullptr) worker_->DestroyAh(channel.ah).IgnoreError();
  if (channel.region.key != 0) worker_->DeregMr(channel.region).IgnoreError();
  if (channel.cq != nullptr) worker_->DestroyCq(channel.cq).IgnoreError();
  if (channel.pd != nullptr) worker_->DeallocPd(channel.pd).IgnoreError();
}

}  // namespace pollux::tools
