// Reports the failure of a queue pair from its owner's core to CM's core.
#ifndef POLLUX_CM_CONNECTION_FAILURE_RELAY_H_
#define POLLUX_CM_CONNECTION_FAILURE_RELAY_H_

#include <infiniband/verbs.h>

#include <functional>
#include <utility>
#include <vector>

#include "stack/base/types.h"
#include "stack/engine/loop/worker.h"
#include "stack/transport/diagnostics/flight_recorder.h"

namespace pollux::cm {

// There is one for each worker that owns queue pairs of CM's connections; it is called on that
// worker's core.
class FailureRelay final : public engine::FailureObserver {
 public:
  using Handler = std::function<void(Qpn qpn, ibv_wc_status status,
                                     std::vector<transport::FlightEntry> flight)>;

  // `handler` is called on the core of `home`, CM's worker: at once if `owner` is the same worker,
  // otherwise when the message arrives there. This object may be destroyed by then.
  FailureRelay(engine::Worker* home, const engine::Worker* owner, Handler handler)
      : home_(home), local_(home == owner), handler_(std::move(handler)) {}

  void OnQpFailure(verbs::QueuePair& qp, const transport::QpDiagnostics& diagnostics) override;

 private:
  engine::Worker* const home_;
  const bool local_;
  const Handler handler_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_FAILURE_RELAY_H_
