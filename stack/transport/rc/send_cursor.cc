#include "stack/transport/rc/send_cursor.h"

namespace pollux::transport {

using verbs::SendWqe;

void SendCursor::Start() {
  index_ = qp_->sq_head();
  packet_ = reads_ = read_psns_ = 0;
  request_packets_ = ReadRequestPackets(qp_->attr.max_rd_atomic, qp_->PathMtuBytes());
  large_read_window_ = ReadWindow(qp_->PathMtuBytes());
}

void SendCursor::ToTail() {
  index_ = qp_->sq_tail();
  packet_ = reads_ = read_psns_ = 0;
}

void SendCursor::Count(const SendWqe& wqe, uint32_t begin, uint32_t end) {
  read_psns_ += end - begin;
  while (begin < end) {
    begin = RequestEnd(wqe, begin);
    reads_ += begin <= end;
  }
}

void SendCursor::MoveTo(Psn psn, Psn una) {
  index_ = qp_->sq_head();
  packet_ = reads_ = read_psns_ = 0;
  for (; index_ != qp_->sq_tail() && qp_->sq(index_).numbered; ++index_) {
    const SendWqe& wqe = qp_->sq(index_);
    const auto begin = static_cast<uint32_t>(std::max(Distance(wqe.first_psn, una), 0));
    const int32_t wanted = Distance(wqe.first_psn, psn);
    if (wanted < static_cast<int32_t>(wqe.packets)) {
      packet_ = static_cast<uint32_t>(std::max(wanted, 0));
      if (begin < packet_ && wqe.has_response()) Count(wqe, begin, packet_);
      return;
    }
    if (wqe.has_response()) Count(wqe, begin, wqe.packets);
  }
}

bool SendCursor::Beyond(Psn una) const {
  const auto ahead = static_cast<int32_t>(index_ - qp_->sq_head());
  if (ahead != 0) return ahead > 0;
  return packet_ > 0 && static_cast<int32_t>(packet_) > Distance(qp_->sq(index_).first_psn, una);
}

bool SendCursor::CatchUp(Psn una) {
  const auto ahead = static_cast<int32_t>(index_ - qp_->sq_head());
  if (ahead > 0) return false;
  if (ahead == 0) {
    const bool numbered = !AtEnd() && qp_->sq(index_).numbered;
    if (!numbered) return false;
    if (static_cast<int32_t>(packet_) >= Distance(qp_->sq(index_).first_psn, una)) return false;
  }
  MoveTo(una, una);
  return true;
}

void SendCursor::Answered(Psn psn) {
  if (!Beyond(psn)) return;
  const SendWqe& wqe = qp_->sq(qp_->sq_head());
  const auto packet = static_cast<uint32_t>(Distance(wqe.first_psn, psn));
  --read_psns_;
  if (packet + 1 == RequestEnd(wqe, packet)) --reads_;
}

}  // namespace pollux::transport
