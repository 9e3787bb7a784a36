#include "cm/connection/failure_relay.h"

namespace pollux::cm {

void FailureRelay::OnQpFailure(verbs::QueuePair& qp, const transport::Journal& journal) {
  if (local_) {
    handler_(qp.qpn(), journal.failure(), journal.recorder().Entries());
    return;
  }
  engine::Party::Post(*home_, [handler = handler_, qpn = qp.qpn(), status = journal.failure(),
                               flight = journal.recorder().Entries()]() mutable {
    handler(qpn, status, std::move(flight));
  });
}

}  // namespace pollux::cm
