#include "stack/engine/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "stack/engine/runtime_directory.h"
#include "stack/engine/telemetry_socket.h"
#include "stack/io/port/devargs.h"

namespace pollux::engine {
namespace {

struct HugePageMemory {
  uint64_t page_kib = 0;
  uint64_t free_mib = 0;
};

// The free huge pages of the size that EAL would use for `memory_mib`: among the sizes with enough
// free memory, the largest that does not exceed `memory_mib`, or else the smallest; if no size has
// enough, the one with most free memory. Pages that other processes have reserved, but not yet
// touched, do not count as free.
HugePageMemory FreeHugePages(uint64_t memory_mib) {
  HugePageMemory most;
  const auto rank = [memory_mib](const HugePageMemory& one) {
    const bool enough = one.free_mib >= memory_mib;
    const bool fits = one.page_kib <= memory_mib << 10;
    const auto size = static_cast<int64_t>(one.page_kib);
    return std::tuple(enough, enough && fits, !enough ? 0 : fits ? size : -size, one.free_mib);
  };
  std::error_code error;
  const std::filesystem::directory_iterator sizes("/sys/kernel/mm/hugepages", error);
  if (error) return most;
  for (const auto& size : sizes) {
    // "hugepages-2048kB"
    const std::string name = size.path().filename();
    const size_t dash = name.find('-');
    if (dash == std::string::npos) continue;
    const uint64_t page_kib = std::strtoull(name.c_str() + dash + 1, nullptr, 10);
    uint64_t free_pages = 0, reserved_pages = 0;
    std::ifstream(size.path() / "free_hugepages") >> free_pages;
    std::ifstream(size.path() / "resv_hugepages") >> reserved_pages;
    const uint64_t free_mib = (free_pages - std::min(free_pages, reserved_pages)) * page_kib / 1024;
    const HugePageMemory found{page_kib, free_mib};
    if (free_mib > 0 && (most.free_mib == 0 || rank(found) > rank(most))) most = found;
  }
  return most;
}

// Whether this process's control group lets it allocate `memory_mib` of these pages. Checked before
// EAL starts, because a failed EAL cannot be started again without huge pages. Needs Linux 5.14
// (MADV_POPULATE_WRITE); before, the limit is not detected.
bool CanUse(const HugePageMemory& pages, uint64_t memory_mib) {
  const uint64_t page_bytes = pages.page_kib << 10;
  const uint64_t bytes = ((memory_mib << 20) + page_bytes - 1) / page_bytes * page_bytes;
  const int size = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size, -1, 0);
  if (memory == MAP_FAILED) return false;
  const bool populated = madvise(memory, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
  munmap(memory, bytes);
  return populated;
}

constexpr char kSysCpus[] = "/sys/devices/system/cpu";

// What EAL takes for the sign of a CPU.
std::string CpuPath(int cpu) { return absl::StrFormat("%s/cpu%d/topology/core_id", kSysCpus, cpu); }

absl::StatusOr<bool> ChooseHugePages(const EalOptions& options) {
  if (options.huge_pages == EalOptions::HugePages::kNever) return false;
  const HugePageMemory pages = FreeHugePages(options.memory_mib);
  const bool enough = pages.free_mib > 0 && pages.free_mib >= options.memory_mib;
  if (enough && CanUse(pages, options.memory_mib)) return true;
  if (options.huge_pages == EalOptions::HugePages::kAuto) return false;
  if (enough) {
    return absl::FailedPreconditionError(
        absl::StrFormat("huge pages requested: %u MiB are free, but this process may not use %u "
                        "MiB of them; see its control group's limit (hugetlb) or run without",
                        pages.free_mib, options.memory_mib));
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "huge pages requested: %u MiB needed, %u MiB free; reserve more (sysctl vm.nr_hugepages=%u) "
      "or run without",
      options.memory_mib, pages.free_mib, (options.memory_mib + 1) / 2));
}

// The CPUs this thread may run on that EAL can know: it reads sysfs, and counts to RTE_MAX_LCORE.
absl::StatusOr<std::vector<int>> CpusOfEal(const cpu_set_t& affinity) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < RTE_MAX_LCORE; ++cpu) {
    std::error_code error;
    if (CPU_ISSET(cpu, &affinity) && std::filesystem::exists(CpuPath(cpu), error)) {
      cpus.push_back(cpu);
    }
  }
  if (!cpus.empty()) return cpus;
  if (!std::filesystem::exists(kSysCpus)) {
    return absl::FailedPreconditionError(
        absl::StrCat("DPDK looks for CPUs in ", kSysCpus,
                     ", and there is none; mount sysfs (mount -t sysfs sysfs /sys)"));
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("DPDK knows CPUs 0 to %d only, and this process may run on none of them; "
                      "change its CPU affinity (taskset)",
                      RTE_MAX_LCORE - 1));
}

absl::Status& MutableTelemetryStatus() {
  static auto* const status = new absl::Status();
  return *status;
}

struct Files {
  std::string prefix;
  bool telemetry = false;
};

// EAL does not start at all where its telemetry cannot: that is tried before.
Files PrepareFiles(const EalOptions& options) {
  const std::string own = absl::StrCat(kFilePrefix, getpid());
  if (!options.telemetry) return {.prefix = own};
  const std::string prefix = options.file_prefix.empty() ? own : options.file_prefix;
  RemoveStaleDirectories();
  MutableTelemetryStatus() = MakeRuntimeDirectory(prefix);
  if (!MutableTelemetryStatus().ok()) return {.prefix = own};
  return {.prefix = prefix, .telemetry = true};
}

absl::Status Start(const EalOptions& options) {
  const absl::StatusOr<bool> huge_pages = ChooseHugePages(options);
  if (!huge_pages.ok()) return huge_pages.status();
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof affinity, &affinity) != 0) {
    return absl::ErrnoToStatus(errno, "reading the CPU affinity of this thread");
  }
  const absl::StatusOr<std::vector<int>> cpus = CpusOfEal(affinity);
  if (!cpus.ok()) return cpus.status();
  // One EAL core that may run wherever this thread may: EAL would otherwise pin the thread to one
  // CPU and start an idle thread on each of the others.
  std::vector<std::string> args = {"pollux",   "--log-level=critical",
                                   "--lcores", absl::StrCat("0@(", absl::StrJoin(*cpus, ","), ")"),
                                   "-m",       absl::StrCat(options.memory_mib)};
  const Files files = PrepareFiles(options);
  if (files.telemetry) GuardTelemetrySocketFrom(files.prefix);
  args.insert(args.end(), {"--file-prefix", files.prefix});
  if (!files.telemetry) args.emplace_back("--no-telemetry");
  if (*huge_pages) {
    args.push_back("--in-memory");
  } else {
    args.insert(args.end(), {"--no-huge", "--no-shconf"});
  }
  bool has_pci = false;
  for (const std::string& port : options.ports) {
    if (io::DriverOf(port) != io::Driver::kPci) continue;
    args.insert(args.end(), {"-a", port});
    has_pci = true;
  }
  if (!has_pci) args.push_back("--no-pci");

  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  // EAL's threads inherit what is blocked. They write to sockets of memif and telemetry, and
  // SIGPIPE would end this process when a peer closes one. Signals that a faulting instruction
  // raises stay unblocked: blocked, they end the process, and EAL handles SIGBUS while it allocates
  // huge pages.
  sigset_t all, before;
  sigfillset(&all);
  for (const int raised : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
    sigdelset(&all, raised);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0;
  const int error = rte_errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (files.telemetry) GuardTelemetrySocketTo();
  // Made by EAL all the same, and of no use.
  if (!files.telemetry) rmdir(absl::StrCat(RuntimeDirectory(), "/", files.prefix).c_str());
  // What EAL cannot name is allowed all the same.
  sched_setaffinity(0, sizeof affinity, &affinity);
  if (started) return absl::OkStatus();
  const char* hint = has_pci ? "; run `pollux doctor --port ADDRESS` to find the cause" : "";
  return absl::FailedPreconditionError(absl::StrFormat(
      "DPDK did not start (%s): %s%s", absl::StrJoin(args, " "), rte_strerror(error), hint));
}

}  // namespace

absl::Status InitEal(const EalOptions& options) {
  static const absl::Status status = Start(options);
  return status;
}

absl::Status TelemetryStatus() { return MutableTelemetryStatus(); }

}  // namespace pollux::engine
