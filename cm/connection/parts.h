// The common parts of a manager, on which the classes for each stage of a connection build.
#ifndef POLLUX_CM_CONNECTION_PARTS_H_
#define POLLUX_CM_CONNECTION_PARTS_H_

#include <memory>
#include <utility>

#include "cm/connection/backlog.h"
#include "cm/connection/context.h"
#include "cm/connection/established.h"
#include "cm/connection/events.h"
#include "cm/connection/half_open.h"
#include "cm/connection/mra_exchange.h"
#include "cm/connection/other_managers.h"
#include "cm/connection/queue_pairs.h"
#include "cm/connection/sender.h"
#include "cm/connection/teardown.h"

namespace pollux::cm {

// Owned by the manager, on its core. Each uses only those declared before it.
struct Parts {
  Parts(std::unique_ptr<Environment> environment, const ManagerConfig& config,
        TimerHandler* timer_handler)
      : context(std::move(environment), config, timer_handler) {}

  Context context;
  Events events{&context};
  Sender sender{&context};
  OtherManagers others{&context};
  Backlog backlog{&context};
  HalfOpen half_open{context.config.max_half_open};
  QueuePairs queue_pairs{&context, &events};
  Teardown teardown{&context, &events, &sender, &queue_pairs, &backlog, &half_open};
  Established established{&context, &sender, &others, &half_open, &teardown};
  MraExchange mra{&context, &sender};
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_PARTS_H_
