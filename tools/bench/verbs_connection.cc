#include "tools/bench/verbs_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr uint64_t kAskedId = UINT64_MAX;

absl::Status Refused(const cm::Event& event) {
  if (event.type == RDMA_CM_EVENT_REJECTED) {
    return absl::UnavailableError(
        absl::StrCat("the peer rejected the connection (REJ reason ", event.status, ")",
                     event.status == 8 ? ": nothing listens there; check the port" : ""));
  }
  if (event.type == RDMA_CM_EVENT_ADDR_ERROR || event.type == RDMA_CM_EVENT_ROUTE_ERROR) {
    return absl::UnavailableError(
        "no such host on the network (its address does not resolve); check the address");
  }
  if (event.type == RDMA_CM_EVENT_UNREACHABLE) {
    return absl::UnavailableError("the host does not answer connection requests");
  }
  return absl::UnavailableError(
      absl::StrCat(rdma_event_str(event.type), ", status ", event.status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsConnection>> VerbsConnection::Connect(engine::Worker* worker,
                                                                          cm::Manager* manager,
                                                                          const SocketAddress& peer,
                                                                          const Config& config,
                                                                          User* user) {
  std::unique_ptr<VerbsConnection> made(new VerbsConnection(worker, manager, config, user));
  made->active_ = true;
  made->param_ = config.param;
  auto id = manager->CreateId(RDMA_PS_TCP, made->Handler());
  if (!id.ok()) return id.status();
  made->id_ = *id;
  absl::Status status = manager->ResolveAddr(*id, peer, config.resolve_timeout_ms);
  worker->AddPoller(made.get());
  if (!status.ok()) return status;
  return made;
}

absl::StatusOr<std::unique_ptr<VerbsConnection>> VerbsConnection::Listen(engine::Worker* worker,
                                                                         cm::Manager* manager,
                                                                         const SocketAddress& local,
                                                                         const Config& config,
                                                                         User* user) {
  std::unique_ptr<VerbsConnection> made(new VerbsConnection(worker, manager, config, user));
  auto id = manager->CreateId(RDMA_PS_TCP, made->Handler());
  if (!id.ok()) return id.status();
  made->listener_ = *id;
  absl::Status status = manager->BindAddr(*id, local);
  if (status.ok()) status = manager->Listen(*id, local.port);
  worker->AddPoller(made.get());
  if (!status.ok()) return status;
  return made;
}

std::unique_ptr<VerbsConnection> VerbsConnection::Accept(engine::Worker* worker,
                                                         cm::Manager* manager,
                                                         const cm::Event& request,
                                                         const Config& config, User* user) {
  std::unique_ptr<VerbsConnection> made(new VerbsConnection(worker, manager, config, user));
  manager->SetHandler(request.id, made->Handler());
  worker->AddPoller(made.get());
  made->Serve(request.id, request.param);
  return made;
}

VerbsConnection::~VerbsConnection() {
  worker_->RemovePoller(this);
  if (listener_ != nullptr) manager_->DestroyId(std::exchange(listener_, nullptr));
  if (next_ != nullptr) manager_->DestroyId(std::exchange(next_, nullptr));
  DropPeer();
}

cm::EventHandler VerbsConnection::Handler() {
  return [this](const cm::Event& event) { OnEvent(event); };
}

void VerbsConnection::OnEvent(const cm::Event& event) {
  // It has given up.
  if (event.id == next_ && next_ != nullptr) return RefuseNext();
  switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      return OnRequest(event);
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (absl::Status status = manager_->ResolveRoute(id_, config_.resolve_timeout_ms);
          !status.ok()) {
        End(status);
      }
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return Bind();
    case RDMA_CM_EVENT_ESTABLISHED:
      established_ = true;
      RefuseNext();
      ask_at_ns_ = worker_->now_ns() + kQuietNs;
      return user_->OnEstablished(event.param.private_data);
    case RDMA_CM_EVENT_DISCONNECTED:
      // What came before the DREQ counts.
      Drain();
      return End(absl::OkStatus());
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      return End(Refused(event));
  }
}

void VerbsConnection::OnRequest(const cm::Event& event) {
  if (id_ == nullptr && !ended_) return Serve(event.id, event.param);
  if (ended_ || next_ != nullptr) {
    manager_->Reject(event.id, {}).IgnoreError();
    manager_->DestroyId(event.id);
    return;
  }
  next_ = event.id;
  next_offered_ = event.param;
  next_offered_.private_data = {};
  replace_at_ns_ = worker_->now_ns() + kSilentNs;
  // One that has not established its connection yet has as long to do so.
  if (established_) AskWhetherPeerLives();
}

void VerbsConnection::Serve(cm::Id* id, const cm::ConnectionParam& offered) {
  id_ = id;
  param_ = config_.param;
  param_.initiator_depth = std::min(param_.initiator_depth, offered.initiator_depth);
  param_.responder_resources = std::min(param_.responder_resources, offered.responder_resources);
  Bind();
}

void VerbsConnection::Replace() {
  DropPeer();
  established_ = false;
  ask_at_ns_ = replace_at_ns_ = disconnect_deadline_ns_ = UINT64_MAX;
  Serve(std::exchange(next_, nullptr), next_offered_);
}

void VerbsConnection::RefuseNext() {
  if (next_ == nullptr) return;
  replace_at_ns_ = UINT64_MAX;
  manager_->Reject(next_, {}).IgnoreError();
  manager_->DestroyId(std::exchange(next_, nullptr));
}

absl::Status VerbsConnection::MakeQp() {
  auto pd = worker_->AllocPd();
  if (!pd.ok()) return pd.status();
  pd_ = *pd;
  auto cq = worker_->CreateCq(config_.send_queue + config_.receive_queue);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_RC;
  init.pd = pd_;
  init.send_cq = cq_;
  init.recv_cq = cq_;
  init.cap.max_send_wr = config_.send_queue;
  init.cap.max_recv_wr = config_.receive_queue;
  init.cap.max_send_sge = config_.elements;
  init.cap.max_recv_sge = config_.elements;
  init.on_event = [this](ibv_event_type event) {
    if (id_ != nullptr) manager_->Notify(id_, event);
  };
  auto qp = worker_->CreateQp(std::move(init));
  if (!qp.ok()) return qp.status();
  qp_ = *qp;
  return absl::OkStatus();
}

void VerbsConnection::Bind() {
  if (absl::Status status = MakeQp(); !status.ok()) return End(status);
  manager_->BindQp(id_, worker_, qp_, config_.access,
                   [this](absl::Status status) { OnBound(std::move(status)); });
}

void VerbsConnection::OnBound(absl::Status status) {
  if (status.ok()) status = user_->OnReady();
  if (status.ok() && config_.private_data) param_.private_data = config_.private_data();
  if (status.ok()) {
    status = active_ ? manager_->Connect(id_, param_) : manager_->Accept(id_, param_);
  }
  if (!status.ok()) End(std::move(status));
}

void VerbsConnection::Disconnect() {
  if (ended_) return;
  if (!established_ || !manager_->Disconnect(id_).ok()) {
    return End(absl::CancelledError("ended before the connection was established"));
  }
  disconnect_deadline_ns_ = worker_->now_ns() + kDisconnectTimeoutNs;
}

absl::StatusOr<memory::MemoryRegion> VerbsConnection::Register(void* address, uint64_t length,
                                                               int access) {
  auto region = worker_->RegMr(pd_, address, length, access);
  if (region.ok()) regions_.push_back(*region);
  return region;
}

absl::Status VerbsConnection::Deregister(const memory::MemoryRegion& region) {
  std::erase_if(regions_, [&](const memory::MemoryRegion& one) { return one.key == region.key; });
  return worker_->DeregMr(region);
}

absl::Status VerbsConnection::Send(ibv_send_wr wr) {
  const ibv_send_wr* bad = nullptr;
  const int error = qp_->PostSend(&wr, &bad);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ibv_post_send: ", std::strerror(error)));
}

absl::Status VerbsConnection::Receive(uint64_t wr_id, const ibv_sge& sge) {
  ibv_sge element = sge;
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &element;
  wr.num_sge = 1;
  const ibv_recv_wr* bad = nullptr;
  const int error = qp_->PostRecv(&wr, &bad);
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ibv_post_recv: ", std::strerror(error)));
}

void VerbsConnection::End(absl::Status status) {
  if (std::exchange(ended_, true)) return;
  user_->OnEnded(status);
}

bool VerbsConnection::Drain() {
  std::array<ibv_wc, 16> completions;
  bool busy = false;
  while (cq_ != nullptr && !ended_) {
    const int n = cq_->Poll(static_cast<int>(completions.size()), completions.data());
    if (n == 0) break;
    busy = true;
    for (int i = 0; i < n && !ended_; ++i) Take(completions[static_cast<size_t>(i)]);
  }
  if (busy && established_) ask_at_ns_ = worker_->now_ns() + kQuietNs;
  return busy;
}

void VerbsConnection::Take(const ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS) {
    RefuseNext();  // the peer lives
  } else if (next_ != nullptr) {
    return;  // of a peer that gives way
  }
  if (wc.wr_id != kAskedId) return user_->OnCompletion(wc);
  if (wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR) return;
  End(absl::UnavailableError(absl::StrCat("the peer no longer answers, and has sent no DREQ: ",
                                          ibv_wc_status_str(wc.status))));
}

void VerbsConnection::AskWhetherPeerLives() {
  ask_at_ns_ = worker_->now_ns() + kQuietNs;
  ibv_send_wr wr{};
  wr.wr_id = kAskedId;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  // Where the queue is full there is something on the way, whose retries tell as well.
  Send(wr).IgnoreError();
}

bool VerbsConnection::Poll(uint64_t now_ns) {
  if (now_ns >= disconnect_deadline_ns_) End(absl::OkStatus());
  const bool busy = Drain();
  if (now_ns >= replace_at_ns_ && !ended_) Replace();
  if (now_ns >= ask_at_ns_ && !ended_) AskWhetherPeerLives();
  return busy;
}

void VerbsConnection::DropPeer() {
  if (id_ != nullptr) manager_->DestroyId(std::exchange(id_, nullptr));
  if (qp_ != nullptr) {
    worker_->DestroyQp(std::exchange(qp_, nullptr)).IgnoreError();
  }
  for (const memory::MemoryRegion& region : regions_) worker_->DeregMr(region).IgnoreError();
  regions_.clear();
  if (cq_ != nullptr) worker_->DestroyCq(std::exchange(cq_, nullptr)).IgnoreError();
  if (pd_ != nullptr) worker_->DeallocPd(std::exchange(pd_, nullptr)).IgnoreError();
}

}  // namespace pollux::tools
