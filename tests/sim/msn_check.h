// Checks the message sequence numbers (MSN) of a responder against the messages of its peer.
#ifndef POLLUX_TESTS_SIM_MSN_CHECK_H_
#define POLLUX_TESTS_SIM_MSN_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/types.h"
#include "stack/wire/roce_packet.h"

namespace pollux::sim {

// IB specification 9.7.7.1: the MSN counts the messages that the responder has completed; READs and
// atomics count from their acceptance on.
class MsnCheck {
 public:
  // The requester starts at `first_psn`; `packets` has the number of PSNs of each of its messages,
  // in order.
  MsnCheck(Psn first_psn, uint32_t first_msn, const std::vector<uint32_t>& packets);

  // Checks a response. Returns a description of the error; empty if there is none.
  std::string Check(const wire::RocePacket& response) const;

 private:
  uint32_t MessagesBefore(Psn psn) const;

  Psn first_psn_;
  uint32_t first_msn_;
  std::vector<int32_t> ends_;  // the end of each message, relative to first_psn_
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_MSN_CHECK_H_
