// Objects that a program has destroyed and may touch once more.
#ifndef POLLUX_COMPAT_VERBS_RECENTLY_DESTROYED_H_
#define POLLUX_COMPAT_VERBS_RECENTLY_DESTROYED_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "compat/process/fork_gate.h"

namespace pollux::compat {

// Programs end in any order: a thread of theirs is about to wait on a channel that another one
// destroys, a device is closed before what was made on it is destroyed. The last few that are gone
// for the program stay in memory, so that who comes late finds something in which nothing happens.
// Any thread. Made with `new` and never destroyed: programs come late while they exit, too.
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
