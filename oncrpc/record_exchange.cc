#include "oncrpc/record_exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "oncrpc/record_mark.h"

namespace pollux::oncrpc {
namespace {

using Clock = std::chrono::steady_clock;

// One exchange: what its steps share.
struct Exchange {
  int fd;
  Clock::time_point deadline;
  const std::string& name;

  absl::Status Broken(const char* what) const {
    return absl::UnavailableError(absl::StrCat(name, ", ", what, ": ", strerror(errno)));
  }
  absl::Status TooLarge() const {
    return absl::DataLossError(absl::StrCat(name, ": the reply is larger than allowed"));
  }
  absl::Status WaitFor(short events, const char* what) const;
  absl::Status Send(absl::Span<const uint8_t> bytes) const;
  absl::Status Receive(absl::Span<uint8_t> bytes) const;
};

absl::Status Exchange::WaitFor(short events, const char* what) const {
  pollfd watched = {fd, events, 0};
  int ready = 0;
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      return absl::UnavailableError(absl::StrCat(name, ", ", what, ": no answer in time"));
    }
    ready = poll(&watched, 1, static_cast<int>(left.count()));
  } while (ready == 0 || (ready < 0 && errno == EINTR));
  return ready < 0 ? Broken(what) : absl::OkStatus();
}

absl::Status Exchange::Send(absl::Span<const uint8_t> bytes) const {
  while (!bytes.empty()) {
    if (absl::Status status = WaitFor(POLLOUT, "sending"); !status.ok()) return status;
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return Broken("sending");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status Exchange::Receive(absl::Span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    if (absl::Status status = WaitFor(POLLIN, "receiving"); !status.ok()) return status;
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return Broken("receiving");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> ExchangeRecord(int fd, absl::Span<const uint8_t> message,
                                                    size_t max_reply, Clock::time_point deadline,
                                                    const std::string& name) {
  const Exchange exchange{.fd = fd, .deadline = deadline, .name = name};
  const auto mark_out = EmitRecordMark({.fragment_bytes = message.size()});
  std::vector<uint8_t> out(mark_out.begin(), mark_out.end());
  out.insert(out.end(), message.begin(), message.end());
  if (absl::Status status = exchange.Send(out); !status.ok()) return status;
  std::vector<uint8_t> reply;
  for (int fragment = 0; fragment < kMaxRecordFragments; ++fragment) {
    std::array<uint8_t, kRecordMarkBytes> bytes;
    absl::Status status = exchange.Receive(absl::MakeSpan(bytes));
    if (!status.ok()) return status;
    const RecordMark mark = ParseRecordMark(bytes.data());
    if (mark.fragment_bytes > max_reply - reply.size()) return exchange.TooLarge();
    const size_t before = reply.size();
    reply.resize(before + mark.fragment_bytes);
    status = exchange.Receive(absl::MakeSpan(reply).subspan(before));
    if (!status.ok()) return status;
    if (mark.last) return reply;
  }
  return exchange.TooLarge();
}

}  // namespace pollux::oncrpc
