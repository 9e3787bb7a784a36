#include "compat/runtime/held_posts.h"

#include <time.h>

#include <cerrno>

namespace pollux::compat {

void HeldPosts::AwaitSent(engine::ApplicationActivity& activity) const {
  constexpr timespec kStep{0, 50'000};
  constexpr int kSteps = kLongestSendMs * 20;
  const int error = errno;
  for (int i = 0; i < kSteps && posts_since_poll_.load() > 1; ++i) {
    activity.HandOver();
    nanosleep(&kStep, nullptr);
  }
  activity.TakeBack();  // exec may fail
  errno = error;
}

}  // namespace pollux::compat
