// Who keeps the DREQs of connections that are up, for when this process dies without a word.
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
  // A whole frame, of at most kMaxMadFrameBytes. Where it is kept; kNowhere when there is no room.
  virtual uint32_t Keep(std::span<const uint8_t> frame) = 0;
  virtual void Forget(uint32_t place) = 0;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_DREQ_KEEPER_H_
