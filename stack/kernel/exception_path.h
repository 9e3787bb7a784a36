// Passes everything that is not RoCE between a port and a tap in the kernel, so that ssh, rpcbind
// and the rest of the host live at the port's address.
#ifndef POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_
#define POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "stack/io/link/link.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

namespace pollux::kernel {

// Of the worker's core.
struct ExceptionPathCounters {
  uint64_t to_kernel = 0;
  uint64_t to_kernel_dropped = 0;  // the kernel's side was behind
  uint64_t from_kernel = 0;
  uint64_t from_kernel_dropped = 0;  // the port would not take them
};

// Stands between a worker and its port. A thread of its own reads and writes the tap, so that the
// worker makes no system call: frames cross by two rings. What the kernel does not take in time is
// dropped, as a NIC drops.
class ExceptionPath : public io::Link {
 public:
  static constexpr unsigned kToKernelFrames = 256;    // of the worker's buffers, at most so many
  static constexpr unsigned kFromKernelFrames = 512;  // a TCP window of the kernel's at 1500 bytes

  // `port` and the descriptor `tap` (KernelTap::fd) are not owned and outlive this. Frames of up to
  // `frame_bytes`. ResourceExhausted when DPDK has no memory.
  static absl::StatusOr<std::unique_ptr<ExceptionPath>> Start(io::Link* port, int tap,
                                                              uint16_t frame_bytes);
  ~ExceptionPath() override;
  ExceptionPath(const ExceptionPath&) = delete;
  ExceptionPath& operator=(const ExceptionPath&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // Ends the thread and frees what lies in the rings. After the last poll, before the pools go.
  void Stop();

  const ExceptionPathCounters& counters() const { return counters_; }

 private:
  static constexpr uint16_t kBurst = 32;
  // How long the thread sleeps when neither side had a frame: briefly while there is traffic.
  static constexpr uint64_t kBusySleepNs = 20'000;
  static constexpr uint64_t kIdleSleepNs = 1'000'000;
  static constexpr int kBusyRounds = 64;  // without a frame, until the traffic counts as over

  ExceptionPath(io::Link* port, int tap) : port_(port), tap_(tap) {}
  void Run();
  bool WriteToTap();
  bool ReadFromTap();
  void PassFromKernel(uint64_t now_ns);

  io::Link* port_;
  int tap_;
  rte_mempool* pool_ = nullptr;  // of frames that the kernel sends
  rte_ring* to_kernel_ = nullptr;
  rte_ring* from_kernel_ = nullptr;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  ExceptionPathCounters counters_;
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_
