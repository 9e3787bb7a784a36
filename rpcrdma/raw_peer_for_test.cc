#include "rpcrdma/raw_peer_for_test.h"

#include <algorithm>
#include <cstdlib>

#include "rpcrdma/wire/private_data.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint64_t kReceiveBit = 1ull << 63;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

RawPeer::RawPeer(engine::Worker* worker, cm::Manager* manager)
    : worker_(worker), manager_(manager) {
  pd_ = worker->AllocPd().value();
  cq_ = worker->CreateCq(kReceives + kSendQueue).value();
  verbs::QueuePairInitAttr init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = kSendQueue;
  init.cap.max_recv_wr = kReceives;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = true;
  init.on_event = [this](ibv_event_type event) {
    if (id_ != nullptr) manager_->Notify(id_, event);
  };
  qp_ = worker->CreateQp(std::move(init)).value();
  region_ = worker->RegMr(pd_, memory_.data(), memory_.size(), kAccess).value();
  receive_region_ =
      worker->RegMr(pd_, receive_memory_.data(), receive_memory_.size(), IBV_ACCESS_LOCAL_WRITE)
          .value();
  send_region_ = worker->RegMr(pd_, send_memory_.data(), send_memory_.size(), 0).value();
  worker->AddPoller(this);
}

RawPeer::~RawPeer() {
  worker_->RemovePoller(this);
  for (cm::Id* id : {id_, listener_}) {
    if (id != nullptr) manager_->DestroyId(id);
  }
  worker_->DestroyQp(qp_).IgnoreError();
  for (const auto& region : {region_, receive_region_, send_region_}) {
    Require(worker_->DeregMr(region).ok());
  }
  Require(worker_->DestroyCq(cq_).ok() && worker_->DeallocPd(pd_).ok());
}

void RawPeer::Connect(const SocketAddress& server) {
  id_ = manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnEvent(event); }).value();
  Require(manager_->ResolveAddr(id_, server, 5000).ok());
}

void RawPeer::Listen(uint16_t port) {
  listener_ =
      manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) { OnEvent(event); }).value();
  Require(manager_->Listen(listener_, port).ok());
}

void RawPeer::Disconnect() { manager_->Disconnect(id_).IgnoreError(); }

void RawPeer::OnEvent(const cm::Event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      Require(manager_->ResolveRoute(id_, 5000).ok());
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      Bind(id_, /*accept=*/false);
      break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      if (id_ != nullptr) return manager_->DestroyId(event.id);
      id_ = event.id;
      Bind(id_, /*accept=*/true);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      connected_ = true;
      break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      break;
    default:
      ended_ = true;
  }
}

void RawPeer::Bind(cm::Id* id, bool accept) {
  manager_->BindQp(id, worker_, qp_, kAccess, [this, id, accept](absl::Status status) {
    Require(status.ok());
    for (uint32_t i = 0; i < kReceives; ++i) PostReceive(i);
    const auto usual = EncodePrivateData({.remote_invalidation = remote_invalidation,
                                          .send_bytes = kMessageBytes,
                                          .receive_bytes = kMessageBytes});
    cm::ConnectionParam param;
    param.private_data = usual;
    if (private_data.has_value()) param.private_data = *private_data;
    param.min_rnr_timer = min_rnr_timer;
    status = accept ? manager_->Accept(id, param) : manager_->Connect(id, param);
    Require(status.ok());
  });
}

void RawPeer::PostReceive(uint32_t index) {
  ibv_sge sge{receive_region_.iova + uint64_t{index} * kMessageBytes, kMessageBytes,
              receive_region_.key};
  ibv_recv_wr wr{};
  wr.wr_id = kReceiveBit | index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  Require(qp_->PostRecv(&wr, nullptr) == 0);
}

void RawPeer::Repost() {
  repost = true;
  for (const uint32_t index : withheld_) PostReceive(index);
  withheld_.clear();
}

void RawPeer::Send(absl::Span<const uint8_t> message, uint32_t invalidate) {
  Require(message.size() <= kMessageBytes);
  const size_t offset = size_t{next_send_++ % kSendQueue} * kMessageBytes;
  std::copy(message.begin(), message.end(), send_memory_.begin() + offset);
  ibv_sge sge{send_region_.iova + offset, static_cast<uint32_t>(message.size()), send_region_.key};
  ibv_send_wr wr{};
  wr.opcode = invalidate != 0 ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  wr.invalidate_rkey = invalidate;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  Require(qp_->PostSend(&wr, nullptr) == 0);
}

void RawPeer::Read(size_t offset, const Segment& from) { PostRdma(IBV_WR_RDMA_READ, offset, from); }

void RawPeer::Write(size_t offset, const Segment& to) { PostRdma(IBV_WR_RDMA_WRITE, offset, to); }

void RawPeer::WriteWithImmediate(size_t offset, const Segment& to) {
  PostRdma(IBV_WR_RDMA_WRITE_WITH_IMM, offset, to);
}

void RawPeer::PostRdma(ibv_wr_opcode opcode, size_t offset, const Segment& remote) {
  ibv_sge sge{region_.iova + offset, remote.length, region_.key};
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = remote.offset;
  wr.wr.rdma.rkey = remote.handle;
  Require(qp_->PostSend(&wr, nullptr) == 0);
}

Segment RawPeer::ExpiredSegment(size_t offset, uint32_t length) {
  const memory::MemoryRegion region =
      worker_->RegMr(pd_, memory_.data() + offset, length, kAccess).value();
  Require(worker_->DeregMr(region).ok());
  return {region.key, length, region.iova};
}

bool RawPeer::Poll(uint64_t /*now_ns*/) {
  ibv_wc completions[16];
  const int n = cq_->Poll(16, completions);
  for (int i = 0; i < n; ++i) {
    const ibv_wc& wc = completions[i];
    const auto index = static_cast<uint32_t>(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) ended_ = true;
    if ((wc.wr_id & kReceiveBit) == 0) {
      sent.push_back(wc.status);
    } else if (wc.status == IBV_WC_SUCCESS) {
      const uint8_t* at = &receive_memory_[size_t{index} * kMessageBytes];
      received.emplace_back(at, at + wc.byte_len);
      if (repost) {
        PostReceive(index);
      } else {
        withheld_.push_back(index);
      }
    }
  }
  return n > 0;
}

RawPeer::Message MessageOf(const Header& header, absl::Span<const uint8_t> payload) {
  RawPeer::Message message(HeaderBytes(header));
  Require(EmitHeader(header, absl::MakeSpan(message)) == message.size());
  message.insert(message.end(), payload.begin(), payload.end());
  return message;
}

RawPeer::Message CallOf(const oncrpc::CallHeader& call, absl::Span<const uint8_t> arguments) {
  RawPeer::Message message(oncrpc::CallHeaderBytes(call));
  Require(oncrpc::EmitCall(call, absl::MakeSpan(message)) == message.size());
  message.insert(message.end(), arguments.begin(), arguments.end());
  return message;
}

RawPeer::Message ReplyOf(uint32_t xid, absl::Span<const uint8_t> results) {
  RawPeer::Message message(oncrpc::kReplyHeaderBytes);
  Require(oncrpc::EmitReply({.xid = xid}, absl::MakeSpan(message)) == message.size());
  message.insert(message.end(), results.begin(), results.end());
  return message;
}

}  // namespace pollux::rpcrdma
