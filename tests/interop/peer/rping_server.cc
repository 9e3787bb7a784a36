#include "tests/interop/peer/rping_server.h"

#include <utility>

namespace pollux::tools {

absl::StatusOr<std::unique_ptr<RpingServer>> RpingServer::Listen(engine::Worker* worker,
                                                                 cm::Manager* manager,
                                                                 Options options) {
  std::unique_ptr<RpingServer> made(new RpingServer(worker, manager, std::move(options)));
  if (absl::Status status = made->Begin(); !status.ok()) return status;
  return made;
}

absl::Status RpingServer::Begin() {
  auto id = manager_->CreateId(RDMA_PS_TCP, [this](const cm::Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) OnRequest(event);
  });
  if (!id.ok()) return id.status();
  listener_ = *id;
  if (absl::Status status = manager_->BindAddr(listener_, options_.local); !status.ok()) {
    return status;
  }
  return manager_->Listen(listener_, options_.local.port);
}

RpingServer::~RpingServer() {
  *self_ = nullptr;
  if (listener_ != nullptr) manager_->DestroyId(listener_);
}

void RpingServer::OnRequest(const cm::Event& event) {
  if (clients_.size() == kMaxClients) {
    manager_->Reject(event.id, {}, cm::RejectReason::kNoResources).IgnoreError();
    return manager_->DestroyId(event.id);
  }
  const uint64_t number = served_++;
  Rping::Options options = options_.of_client ? options_.of_client() : Rping::Options();
  options.on_done = [this, number](const absl::Status& status) { OnDone(number, status); };
  clients_[number] = Rping::Accept(worker_, manager_, event, std::move(options));
}

void RpingServer::OnDone(uint64_t number, const absl::Status& status) {
  if (options_.on_end) options_.on_end(status);
  // The client's end may not go while it calls.
  engine::Party::Post(*worker_, [self = self_, number] {
    if (*self != nullptr) (*self)->Remove(number);
  });
}

void RpingServer::Remove(uint64_t number) {
  const auto client = clients_.find(number);
  pings_ += client->second->pings();
  clients_.erase(client);
}

void RpingServer::Shutdown() {
  manager_->DestroyId(std::exchange(listener_, nullptr));
  for (const auto& [number, client] : clients_) client->Stop();
}

uint64_t RpingServer::pings() const {
  uint64_t pings = pings_;
  for (const auto& [number, client] : clients_) pings += client->pings();
  return pings;
}

}  // namespace pollux::tools
