#include "cm/connection/request_window.h"

namespace pollux::cm {

bool RequestWindow::HasRoom(uint64_t now_ns, IsOpen is_open) {
  if (out_.size() < kMax) return true;
  return std::erase_if(out_, [&](const Out& one) {
           return now_ns >= one.sent_ns + kHoldNs || !is_open(one.comm_id);
         }) > 0;
}

bool RequestWindow::Enter(uint32_t comm_id, uint64_t now_ns, IsOpen is_open) {
  if (!waiting_.empty() || !HasRoom(now_ns, is_open)) {
    waiting_.push_back(comm_id);
    return false;
  }
  out_.push_back({comm_id, now_ns});
  return true;
}

std::optional<uint32_t> RequestWindow::Next(uint64_t now_ns, IsOpen is_open) {
  if (waiting_.empty() || !HasRoom(now_ns, is_open)) return std::nullopt;
  const uint32_t comm_id = waiting_.front();
  waiting_.pop_front();
  out_.push_back({comm_id, now_ns});
  return comm_id;
}

}  // namespace pollux::cm
