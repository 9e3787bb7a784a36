// Objects that a program has destroyed and may still use by mistake.
#ifndef POLLUX_COMPAT_VERBS_RECENTLY_DESTROYED_H_
#define POLLUX_COMPAT_VERBS_RECENTLY_DESTROYED_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "compat/process/fork_gate.h"

namespace pollux::compat {

// Programs destroy objects in any order: a thread may be about to wait on a channel that another
// one destroys, or a device is closed before the objects on it are destroyed. The last kMax
// destroyed objects remain in memory, so that such late calls find an inactive object. Thread-safe.
// Create it with `new` and never destroy it, because late calls also happen while programs exit.
template <class Object>
class RecentlyDestroyed {
 public:
  static constexpr size_t kMax = 64;

  void Put(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_.push_back(std::move(object));
    if (objects_.size() > kMax) objects_.pop_front();
  }

 private:
  GatedMutex mutex_;
  std::deque<std::unique_ptr<Object>> objects_;  // oldest first
};

}  // namespace pollux::compat

#endif  // POLLUX_COMPAT_VERBS_RECENTLY_DESTROYED_H_
