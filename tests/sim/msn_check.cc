#include "tests/sim/msn_check.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "stack/wire/ext_headers.h"

namespace pollux::sim {

MsnCheck::MsnCheck(Psn first_psn, uint32_t first_msn, const std::vector<uint32_t>& packets)
    : first_psn_(first_psn), first_msn_(first_msn) {
  int32_t end = 0;
  for (const uint32_t count : packets) ends_.push_back(end += static_cast<int32_t>(count));
}

uint32_t MsnCheck::MessagesBefore(Psn psn) const {
  const int32_t end = Distance(first_psn_, psn);
  return static_cast<uint32_t>(std::ranges::upper_bound(ends_, end) - ends_.begin());
}

std::string MsnCheck::Check(const wire::RocePacket& response) const {
  if ((response.info->headers & wire::kHasAeth) == 0) return "";
  const wire::Aeth aeth = response.aeth();
  const Psn psn = response.bth.psn;
  const uint32_t counted = (aeth.msn - first_msn_) & 0xFFFFFF;
  const bool acknowledges =
      response.info->operation == wire::Operation::kAck && wire::IsAck(aeth.syndrome);
  const bool refuses = response.info->operation == wire::Operation::kAck && !acknowledges;
  // An acknowledgement says how far it is, a NAK where it waits. A response with data may be sent
  // when more has come.
  const uint32_t least = MessagesBefore(refuses ? psn : psn + 1);
  const uint32_t most = acknowledges || refuses ? least : static_cast<uint32_t>(ends_.size());
  if (counted >= least && counted <= most) return "";
  return absl::StrFormat("the MSN says %u messages, %u to %u are right (first MSN %u)", counted,
                         least, most, first_msn_);
}

}  // namespace pollux::sim
