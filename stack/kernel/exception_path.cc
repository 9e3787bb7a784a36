#include "stack/kernel/exception_path.h"

#include <poll.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "stack/io/link/mbuf_ring.h"
#include "stack/kernel/kernel_tap.h"
#include "stack/wire/roce_packet.h"

namespace pollux::kernel {
namespace {

bool IsRoce(const rte_mbuf* frame) {
  return wire::IsRoceFrame(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExceptionPath>> ExceptionPath::Start(io::Link* port, int tap,
                                                                    uint16_t frame_bytes,
                                                                    const StartThread& start) {
  static std::atomic<unsigned> count{0};
  const std::string name = absl::StrCat("kpath", count++);
  std::unique_ptr<ExceptionPath> path(new ExceptionPath(port, tap, frame_bytes));
  const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;
  path->pool_ = rte_pktmbuf_pool_create(absl::StrCat(name, "p").c_str(), 2 * kFromKernelFrames - 1,
                                        0, 0, RTE_PKTMBUF_HEADROOM + frame_bytes, SOCKET_ID_ANY);
  path->to_kernel_ =
      rte_ring_create(absl::StrCat(name, "t").c_str(), kToKernelFrames, SOCKET_ID_ANY, flags);
  path->from_kernel_ =
      rte_ring_create(absl::StrCat(name, "f").c_str(), kFromKernelFrames, SOCKET_ID_ANY, flags);
  if (path->pool_ == nullptr || path->to_kernel_ == nullptr || path->from_kernel_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("kernel path: DPDK has no memory for its buffers (", rte_strerror(rte_errno),
                     "); give it more (--memory)"));
  }
  const auto run = [raw = path.get()] { raw->Run(); };
  path->thread_ = start ? start(run) : std::thread(run);
  return path;
}

ExceptionPath::~ExceptionPath() {
  Stop();
  rte_ring_free(to_kernel_);
  rte_ring_free(from_kernel_);
  rte_mempool_free(pool_);
}

void ExceptionPath::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  io::FreeFrames(to_kernel_);
  io::FreeFrames(from_kernel_);
}

// ---- On the worker's core.

uint16_t ExceptionPath::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) {
  PassFromKernel(now_ns);
  const uint16_t count = port_->Receive(frames, capacity, now_ns);
  uint16_t ours = 0;
  for (uint16_t i = 0; i < count; ++i) {
    rte_mbuf* frame = frames[i];
    if (IsRoce(frame)) [[likely]] {
      frames[ours++] = frame;
    } else if (rte_ring_sp_enqueue(to_kernel_, frame) == 0) {
      ++counters_.to_kernel;
    } else {
      ++counters_.to_kernel_dropped;
      rte_pktmbuf_free(frame);
    }
  }
  return ours;
}

uint16_t ExceptionPath::Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) {
  return port_->Send(frames, count, now_ns);
}

void ExceptionPath::PassFromKernel(uint64_t now_ns) {
  rte_mbuf* frames[kBurst];
  const unsigned count =
      rte_ring_sc_dequeue_burst(from_kernel_, reinterpret_cast<void**>(frames), kBurst, nullptr);
  if (count == 0) return;
  const uint16_t sent = port_->Send(frames, static_cast<uint16_t>(count), now_ns);
  counters_.from_kernel += sent;
  counters_.from_kernel_dropped += count - sent;
  if (sent < count) rte_pktmbuf_free_bulk(frames + sent, count - sent);
}

// ---- On the thread.

void ExceptionPath::Run() {
  int quiet_rounds = 0;
  while (!stop_) {
    const bool wrote = PassToTap();
    const bool read = PassFromTap();
    if (wrote || read) {
      quiet_rounds = 0;
      continue;
    }
    quiet_rounds = std::min(quiet_rounds + 1, kBusyRounds);
    const timespec sleep{
        .tv_sec = 0,
        .tv_nsec = static_cast<long>(quiet_rounds < kBusyRounds ? kBusySleepNs : kIdleSleepNs)};
    pollfd tap{.fd = tap_, .events = POLLIN, .revents = 0};
    (void)ppoll(&tap, 1, &sleep, nullptr);
    // The tap was deleted: it is always ready, and has nothing.
    if ((tap.revents & POLLERR) != 0) (void)nanosleep(&sleep, nullptr);
  }
}

bool ExceptionPath::PassToTap() {
  rte_mbuf* frames[kBurst];
  const unsigned count =
      rte_ring_sc_dequeue_burst(to_kernel_, reinterpret_cast<void**>(frames), kBurst, nullptr);
  (void)WriteToTap(tap_, frames, static_cast<uint16_t>(count));
  return count > 0;
}

bool ExceptionPath::PassFromTap() {
  rte_mbuf* frames[kBurst];
  uint64_t too_long = 0;
  const uint16_t count = ReadFromTap(tap_, pool_, frame_bytes_, frames, kBurst, &too_long);
  const unsigned passed = rte_ring_sp_enqueue_burst(
      from_kernel_, reinterpret_cast<void* const*>(frames), count, nullptr);
  if (passed < count) rte_pktmbuf_free_bulk(frames + passed, count - passed);
  return count + too_long > 0;
}

}  // namespace pollux::kernel
