#include "cm/connection/failure_relay.h"

namespace pollux::cm {

void FailureRelay::OnQpFailure(verbs::QueuePair& qp, const transport::QpDiagnostics& diagnostics) {
  if (local_) {
    handler_(qp.qpn(), diagnostics.failure(), diagnostics.recorder().Entries());
    return;
  }
  engine::Actor::Post(*home_, [handler = handler_, qpn = qp.qpn(), status = diagnostics.failure(),
                               flight = diagnostics.recorder().Entries()]() mutable {
    handler(qpn, status, std::move(flight));
  });
}

}  // namespace pollux::cm
