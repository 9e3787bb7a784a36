#include "tools/pollux/mckey.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr size_t kMckeyGrhBytes = 40;
constexpr uint32_t kMckeyResolveTimeoutMs = 2000;

}  // namespace

Mckey::Mckey(engine::Worker* worker, cm::Manager* manager, Options options)
    : worker_(worker), manager_(manager), options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Mckey>> Mckey::Start(engine::Worker* worker, cm::Manager* manager,
                                                    Options options) {
  std::unique_ptr<Mckey> made(new Mckey(worker, manager, std::move(options)));
  absl::Status status = made->Begin();
  worker->AddPoller(made.get());
  if (!status.ok()) return status;
  return made;
}

Mckey::~Mckey() {
  worker_->RemovePoller(this);
  if (id_ != nullptr) manager_->DestroyId(id_);
  // Nothing can be done about what does not go, and nothing waits for it.
  if (qp_ != nullptr) worker_->DestroyQp(qp_).IgnoreError();
  if (ah_ != nullptr) worker_->DestroyAh(ah_).IgnoreError();
  if (region_.key != 0) worker_->DeregMr(region_).IgnoreError();
  if (cq_ != nullptr) worker_->DestroyCq(cq_).IgnoreError();
  if (pd_ != nullptr) worker_->DeallocPd(pd_).IgnoreError();
}

absl::Status Mckey::Begin() {
  const uint32_t mtu = 128u << worker_->interface().active_mtu();
  if (options_.bytes > mtu) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages of ", options_.bytes, " bytes do not fit into datagrams of ", mtu));
  }
  auto id = manager_->CreateId(RDMA_PS_UDP, [this](const cm::Event& event) {
    if (absl::Status status = OnEvent(event); !status.ok()) Done(std::move(status));
  });
  if (!id.ok()) return id.status();
  id_ = *id;
  if (options_.local != Gid{}) {
    absl::Status bound = manager_->BindAddr(id_, {.address = options_.local, .port = 0});
    if (!bound.ok()) return bound;
  }
  return manager_->ResolveAddr(id_, {.address = options_.group, .port = 0}, kMckeyResolveTimeoutMs);
}

absl::Status Mckey::OnEvent(const cm::Event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      Bind();
      return absl::OkStatus();
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      return OnJoined(event.ud);
    default:
      return absl::UnavailableError(
          absl::StrCat(rdma_event_str(event.type), ": ", std::strerror(-event.status)));
  }
}

absl::Status Mckey::MakeQp() {
  auto pd = worker_->AllocPd();
  if (!pd.ok()) return pd.status();
  pd_ = *pd;
  auto cq = worker_->CreateCq(options_.messages);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  memory_.assign(kMckeyGrhBytes + 2 * size_t{options_.bytes}, 'm');
  auto region = worker_->RegMr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (!region.ok()) return region.status();
  region_ = *region;
  verbs::QueuePairInitAttr init;
  init.type = IBV_QPT_UD;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = init.cap.max_recv_wr = options_.messages;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.sq_sig_all = true;
  auto qp = worker_->CreateQp(std::move(init));
  if (!qp.ok()) return qp.status();
  qp_ = *qp;
  return absl::OkStatus();
}

void Mckey::Bind() {
  if (absl::Status status = MakeQp(); !status.ok()) return Done(std::move(status));
  manager_->BindQp(id_, worker_, qp_, IBV_ACCESS_LOCAL_WRITE, [this](absl::Status status) {
    if (status.ok()) status = OnBound();
    if (!status.ok()) Done(std::move(status));
  });
}

absl::Status Mckey::OnBound() {
  if (!options_.sender) {
    if (absl::Status status = PostReceives(); !status.ok()) return status;
  }
  return manager_->JoinMulticast(id_, options_.group);
}

absl::Status Mckey::OnJoined(const cm::UdParam& ud) {
  joined_ns_ = idle_since_ns_ = worker_->now_ns();
  if (options_.on_joined) options_.on_joined();
  if (options_.sender) to_ = ud;
  return absl::OkStatus();
}

absl::Status Mckey::PostReceives() {
  // All of them in one place: what is in the messages is nobody's concern.
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()),
              static_cast<uint32_t>(kMckeyGrhBytes + options_.bytes), region_.key};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  for (uint32_t i = 0; i < options_.messages; ++i) {
    const ibv_recv_wr* bad = nullptr;
    if (const int error = qp_->PostRecv(&wr, &bad); error != 0) {
      return absl::InternalError(absl::StrCat("ibv_post_recv: ", std::strerror(error)));
    }
  }
  return absl::OkStatus();
}

absl::Status Mckey::PostSends() {
  auto ah = worker_->CreateAh(pd_, to_->ah_attr);
  if (!ah.ok()) return ah.status();
  ah_ = *ah;
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data()) + kMckeyGrhBytes + options_.bytes,
              options_.bytes, region_.key};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htobe32(qp_->qpn().value);
  wr.wr.ud.ah = ah_;
  wr.wr.ud.remote_qpn = to_->qp_num;
  wr.wr.ud.remote_qkey = to_->qkey;
  for (uint32_t i = 0; i < options_.messages; ++i) {
    const ibv_send_wr* bad = nullptr;
    if (const int error = qp_->PostSend(&wr, &bad); error != 0) {
      return absl::InternalError(absl::StrCat("ibv_post_send: ", std::strerror(error)));
    }
  }
  return absl::OkStatus();
}

absl::Status Mckey::OnCompletion(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    return absl::InternalError(
        absl::StrCat("a work request failed: ", ibv_wc_status_str(wc.status)));
  }
  ++(options_.sender ? sent_ : received_);
  if (sent_ + received_ == options_.messages) Done(absl::OkStatus());
  return absl::OkStatus();
}

bool Mckey::Poll(uint64_t now_ns) {
  if (cq_ == nullptr || done_) return false;
  if (to_ && now_ns >= *joined_ns_ + options_.pause_ns) {
    absl::Status status = PostSends();
    to_.reset();
    if (!status.ok()) Done(std::move(status));
  }
  std::array<ibv_wc, 16> completions;
  const int count = cq_->Poll(static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count && !done_; ++i) {
    absl::Status status = OnCompletion(completions[static_cast<size_t>(i)]);
    if (!status.ok()) Done(std::move(status));
  }
  if (count > 0) idle_since_ns_ = now_ns;
  if (!done_ && !to_ && idle_since_ns_ && now_ns > *idle_since_ns_ + options_.idle_ns) {
    Done(absl::DeadlineExceededError(absl::StrCat("nothing came for ", options_.idle_ns / 1'000'000,
                                                  " ms: ", received_, " of ", options_.messages,
                                                  " received")));
  }
  return count > 0;
}

void Mckey::Done(absl::Status status) {
  if (!std::exchange(done_, true)) options_.on_done(status);
}

}  // namespace pollux::tools
