// The objects that all parts of a manager share: its environment, settings and connections.
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

  // Creates a connection with a new communication ID. Returns null at max_ids.
  CmConnection* NewConnection();
  // Finds the connection for a message with these two communication IDs: the sender's own, and the
  // receiver's. Returns null and counts a drop if there is none or if its peer is another one.
  CmConnection* FindFor(const Origin& origin, uint32_t senders_id, uint32_t receivers_id);
  // True if there is no such connection, or if it has ended, even if its identifier is not
  // destroyed yet.
  bool IsForgotten(uint32_t local_comm_id) const;
  // Adds an entry to the connection's flight recorder. `detail`: see flight_text.h.
  void RecordMad(CmConnection& connection, transport::FlightKind kind, Attribute attribute,
                 uint16_t detail) const;

  uint64_t now_ns() const { return environment->now_ns(); }
  // Sets the connection's timer to fire after `after_ns`.
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
  DreqKeeper* dreq_keeper = nullptr;  // null: DREQs are not kept
  // Set to false at the start of the manager's destruction. Callbacks from other cores check it
  // first.
  const std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_CONTEXT_H_
