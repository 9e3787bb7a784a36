// What all parts of a manager share: its environment, its settings and its connections.
#ifndef POLLUX_CM_CONNECTION_CONTEXT_H_
#define POLLUX_CM_CONNECTION_CONTEXT_H_

#include <cstdint>
#include <memory>

#include "cm/connection/config.h"
#include "cm/connection/connection.h"
#include "cm/connection/connection_table.h"
#include "cm/connection/dreq_keeper.h"
#include "cm/connection/environment.h"
#include "cm/connection/origin.h"
#include "cm/gsi/counters.h"
#include "cm/wire/mad.h"
#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::cm {

// Owned by the manager, on its core.
struct Context {
  Context(std::unique_ptr<Environment> the_environment, const ManagerConfig& the_config,
          TimerHandler* on_timer);

  // A connection under a fresh communication ID. Null at max_ids.
  CmConnection* NewConnection();
  // The connection that a message with these two IDs (as its sender names them) is for. Null, and
  // counted, when there is none or it is with someone else.
  CmConnection* FindFor(const Origin& origin, uint32_t senders_id, uint32_t receivers_id);
  // No connection of ours, or one that is over though its identifier is not destroyed yet.
  bool IsForgotten(uint32_t local_comm_id) const;
  // In the connection's flight recorder. `detail`: see flight_text.h.
  void RecordMad(CmConnection& connection, transport::FlightKind kind, Attribute attribute,
                 uint16_t detail) const;

  uint64_t now_ns() const { return environment->now_ns(); }
  // When a connection's timer is to fire next.
  void ArmTimer(CmConnection& connection, uint64_t after_ns) const {
    environment->wheel().Arm(connection.timer, now_ns() + after_ns);
  }
  uint64_t time_wait_ns() const;
  void CountDuplicate(Attribute attribute) { ++environment->counters().of(attribute).duplicates; }
  void CountDrop(MadDrop drop) { environment->counters().Count(drop); }

  const std::unique_ptr<Environment> environment;
  const ManagerConfig config;
  TimerHandler* const timer_handler;
  ConnectionTable table;
  DreqKeeper* dreq_keeper = nullptr;  // null: nobody keeps them
  // False once the manager ends, before anything of it does; callbacks from other cores ask it
  // first.
  const std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONTEXT_H_
