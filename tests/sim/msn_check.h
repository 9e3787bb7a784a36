// The message sequence numbers of a responder, against what its peer has sent.
#ifndef POLLUX_TESTS_SIM_MSN_CHECK_H_
#define POLLUX_TESTS_SIM_MSN_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/types.h"
#include "stack/wire/roce_packet.h"

namespace pollux::sim {

// Source: IB specification 9.7.7.1: the number of messages that the responder has completed, READs
// and atomics from when they are accepted.
class MsnCheck {
 public:
  // The requester begins at `first_psn`; `packets` are the PSNs of each of its messages, in order.
  MsnCheck(Psn first_psn, uint32_t first_msn, const std::vector<uint32_t>& packets);

  // A response as the responder sent it: in words what is wrong with it; empty when nothing is.
  std::string Check(const wire::RocePacket& response) const;

 private:
  uint32_t MessagesBefore(Psn psn) const;

  Psn first_psn_;
  uint32_t first_msn_;
  std::vector<int32_t> ends_;  // of the messages, from first_psn_
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_MSN_CHECK_H_
