#include "cm/connection/context.h"

#include <algorithm>
#include <utility>

#include "cm/connection/timeouts.h"

namespace pollux::cm {
namespace {

ManagerConfig Sane(ManagerConfig config) {
  config.cm_response_timeout = std::min(config.cm_response_timeout, kMaxTimeoutCode);
  config.packet_lifetime = std::min<uint8_t>(config.packet_lifetime, kMaxTimeoutCode - 1);
  config.max_cm_retries = std::min<uint8_t>(config.max_cm_retries, 15);
  config.target_ack_delay = std::min(config.target_ack_delay, kMaxTimeoutCode);
  return config;
}

}  // namespace

Context::Context(std::unique_ptr<Environment> the_environment, const ManagerConfig& the_config,
                 TimerHandler* on_timer)
    : environment(std::move(the_environment)),
      config(Sane(the_config)),
      timer_handler(on_timer),
      table(config.max_ids, environment->shard(), environment->claims()) {}

CmConnection* Context::NewConnection() {
  CmConnection* const connection =
      table.Add(std::make_unique<CmConnection>(timer_handler), environment->random());
  if (connection != nullptr) connection->created_ns = now_ns();
  return connection;
}

CmConnection* Context::FindFor(const Origin& origin, uint32_t senders_id, uint32_t receivers_id) {
  CmConnection* connection = table.Find(receivers_id);
  if (connection == nullptr) {
    CountDrop(MadDrop::kUnknownCommId);
    return nullptr;
  }
  // Before its REP or REJ the peer's communication ID is not known.
  const bool knows_peer = connection->remote_comm_id != 0;
  if (connection->peer().address != origin.from ||
      (knows_peer && senders_id != connection->remote_comm_id)) {
    CountDrop(MadDrop::kWrongPeer);
    return nullptr;
  }
  return connection;
}

bool Context::IsForgotten(uint32_t local_comm_id) const {
  const CmConnection* connection = table.Find(local_comm_id);
  return connection == nullptr || connection->state == State::kClosed;
}

void Context::RecordMad(CmConnection& connection, transport::FlightKind kind, Attribute attribute,
                        uint16_t detail) const {
  connection.recorder.Note(kind, static_cast<uint8_t>(attribute), detail, now_ns());
}

uint64_t Context::time_wait_ns() const {
  return TimeoutNs(static_cast<uint8_t>(config.packet_lifetime + 1));
}

}  // namespace pollux::cm
