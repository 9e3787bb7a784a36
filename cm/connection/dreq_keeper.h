// Stores the DREQs of established connections outside this process, so that they can be sent if it
// is killed.
#ifndef POLLUX_CM_CONNECTION_DREQ_KEEPER_H_
#define POLLUX_CM_CONNECTION_DREQ_KEEPER_H_

#include <cstdint>
#include <span>

namespace pollux::cm {

// Called on the manager's core.
class DreqKeeper {
 public:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  virtual ~DreqKeeper() = default;
  // Stores a whole frame of at most kMaxMadFrameBytes. Returns its place, or kNowhere if there is
  // no space.
  virtual uint32_t Keep(std::span<const uint8_t> frame) = 0;
  virtual void Forget(uint32_t place) = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_DREQ_KEEPER_H_
