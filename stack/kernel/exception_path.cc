#include "stack/kernel/exception_path.h"

#include <netinet/in.h>
#include <poll.h>
#include <rte_errno.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"
#include "stack/io/link/mbuf_ring.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/roce_packet.h"

namespace pollux::kernel {
namespace {

bool IsRoce(const rte_mbuf* frame) {
  return wire::IsRoceFrame(rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len);
}

// Completes a TCP or UDP checksum field that contains only `pseudo_header`. `sum` computes the
// packet's checksum; the field must be 0 when it is called.
template <class Sum>
void CompleteField(uint8_t protocol, uint8_t* packet, size_t length, uint16_t pseudo_header,
                   const Sum& sum) {
  const bool tcp = protocol == IPPROTO_TCP;
  if ((!tcp && protocol != IPPROTO_UDP) || length < (tcp ? 20u : 8u)) return;
  uint8_t* const field = packet + (tcp ? 16 : 6);
  uint16_t value;
  std::memcpy(&value, field, sizeof value);
  if (value != pseudo_header) return;
  std::memset(field, 0, sizeof value);
  value = sum(packet);
  std::memcpy(field, &value, sizeof value);
}

// A kernel on this host that leaves TCP's and UDP's checksums to the NIC (at the other end of a
// veth, for example) writes only the sum of the pseudo-header. The tap's kernel would drop such
// packets. A valid checksum of the same value stays as it is.
void CompleteChecksum(uint8_t* frame, size_t length) {
  constexpr size_t kTagged = wire::kEthernetBytes + wire::kVlanTagBytes;
  if (length < kTagged) return;
  size_t at = wire::kEthernetBytes;
  if (LoadBe16(frame + at - 2) == wire::kEtherTypeVlan) at = kTagged;
  const uint16_t type = LoadBe16(frame + at - 2);
  uint8_t* const packet = frame + at;
  length -= at;
  if (type == wire::kEtherTypeIpv4 && length >= sizeof(rte_ipv4_hdr)) {
    const auto* const ip = reinterpret_cast<const rte_ipv4_hdr*>(packet);
    const size_t header = rte_ipv4_hdr_len(ip), total = LoadBe16(packet + 2);
    constexpr uint16_t kFragment = RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK;
    if (header < sizeof(rte_ipv4_hdr) || header > total || total > length ||
        (rte_be_to_cpu_16(ip->fragment_offset) & kFragment) != 0) {
      return;
    }
    CompleteField(ip->next_proto_id, packet + header, total - header, rte_ipv4_phdr_cksum(ip, 0),
                  [ip](const void* inner) { return rte_ipv4_udptcp_cksum(ip, inner); });
  } else if (type == wire::kEtherTypeIpv6 && length >= sizeof(rte_ipv6_hdr)) {
    const auto* const ip = reinterpret_cast<const rte_ipv6_hdr*>(packet);
    const size_t payload = rte_be_to_cpu_16(ip->payload_len);
    if (payload > length - sizeof *ip) return;
    CompleteField(ip->proto, packet + sizeof *ip, payload, rte_ipv6_phdr_cksum(ip, 0),
                  [ip](const void* inner) { return rte_ipv6_udptcp_cksum(ip, inner); });
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExceptionPath>> ExceptionPath::Start(io::Link* port, int tap,
                                                                    uint16_t frame_bytes,
                                                                    const StartThread& start) {
  static std::atomic<unsigned> count{0};
  const std::string name = absl::StrCat("kpath", count++);
  std::unique_ptr<ExceptionPath> path(new ExceptionPath(port, tap));
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
    const bool wrote = WriteToTap();
    const bool read = ReadFromTap();
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

bool ExceptionPath::WriteToTap() {
  rte_mbuf* frames[kBurst];
  const unsigned count =
      rte_ring_sc_dequeue_burst(to_kernel_, reinterpret_cast<void**>(frames), kBurst, nullptr);
  for (unsigned i = 0; i < count; ++i) {
    // What the kernel refuses (an interface that is down) is lost, as on a wire.
    if (frames[i]->nb_segs != 1) continue;
    CompleteChecksum(rte_pktmbuf_mtod(frames[i], uint8_t*), frames[i]->data_len);
    (void)!write(tap_, rte_pktmbuf_mtod(frames[i], void*), frames[i]->data_len);
  }
  if (count > 0) rte_pktmbuf_free_bulk(frames, count);
  return count > 0;
}

bool ExceptionPath::ReadFromTap() {
  bool any = false;
  for (int i = 0; i < kBurst; ++i) {
    rte_mbuf* frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr) return any;  // they wait in the tap's own queue
    const ssize_t bytes = read(tap_, rte_pktmbuf_mtod(frame, void*), rte_pktmbuf_tailroom(frame));
    if (bytes <= 0) {
      rte_pktmbuf_free(frame);
      return any;
    }
    rte_pktmbuf_append(frame, static_cast<uint16_t>(bytes));
    if (rte_ring_sp_enqueue(from_kernel_, frame) != 0) rte_pktmbuf_free(frame);
    any = true;
  }
  return any;
}

}  // namespace pollux::kernel
