// Passes everything that is not RoCE between a port and a tap in the kernel, so that ssh, rpcbind
// and other services of the host are available at the port's address.
#ifndef POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_
#define POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "stack/io/link/link.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

namespace pollux::kernel {

// Written on the worker's core.
struct ExceptionPathCounters {
  uint64_t to_kernel = 0;
  uint64_t to_kernel_dropped = 0;  // the ring to the kernel was full
  uint64_t from_kernel = 0;
  uint64_t from_kernel_dropped = 0;  // the port did not accept them
};

// A layer between a worker and its port. A separate thread reads and writes the tap, so that the
// worker makes no system call; two rings pass the frames. Frames that the kernel does not take in
// time are dropped, as a NIC would.
class ExceptionPath : public io::Link {
 public:
  static constexpr unsigned kToKernelFrames = 256;    // the most worker buffers in this ring
  static constexpr unsigned kFromKernelFrames = 512;  // a TCP window of the kernel at 1500 bytes

  using StartThread = std::function<std::thread(std::function<void()> run)>;

  // `port` and the descriptor `tap` (KernelTap::fd) are not owned and must outlive this object.
  // Frames have up to `frame_bytes` bytes. `start` starts the thread; null: std::thread does.
  // Returns ResourceExhausted if DPDK has no memory.
  static absl::StatusOr<std::unique_ptr<ExceptionPath>> Start(io::Link* port, int tap,
                                                              uint16_t frame_bytes,
                                                              const StartThread& start = nullptr);
  ~ExceptionPath() override;
  ExceptionPath(const ExceptionPath&) = delete;
  ExceptionPath& operator=(const ExceptionPath&) = delete;

  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t now_ns) override;
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t now_ns) override;

  // Ends the thread and frees the frames in the rings. Call it after the last poll and before the
  // packet pools are destroyed.
  void Stop();

  const ExceptionPathCounters& counters() const { return counters_; }

 private:
  static constexpr uint16_t kBurst = 32;
  // How long the thread sleeps if neither side had a frame: briefly during traffic, longer when
  // idle.
  static constexpr uint64_t kBusySleepNs = 20'000;
  static constexpr uint64_t kIdleSleepNs = 1'000'000;
  static constexpr int kBusyRounds = 64;  // rounds without a frame until it is idle

  ExceptionPath(io::Link* port, int tap, uint16_t frame_bytes)
      : port_(port), tap_(tap), frame_bytes_(frame_bytes) {}
  void Run();
  bool PassToTap();
  bool PassFromTap();
  void PassFromKernel(uint64_t now_ns);

  io::Link* port_;
  int tap_;
  uint16_t frame_bytes_;
  rte_mempool* pool_ = nullptr;  // for frames from the kernel
  rte_ring* to_kernel_ = nullptr;
  rte_ring* from_kernel_ = nullptr;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  ExceptionPathCounters counters_;
};

}  // namespace pollux::kernel

#endif  // POLLUX_STACK_KERNEL_EXCEPTION_PATH_H_
