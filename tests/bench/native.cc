// What perftest measures, by the native API: its loops, in two processes at the ends of a veth.
//
// perftest waits for the completion of each message before it looks for the answer, asks for one
// completion of kEvery when it measures rates, takes kTaken at once, and looks at the clock at each
// message. So does this: what is left between the figures of the two is the cost of libibverbs.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/clock.h"
#include "stack/verbs/limits.h"
#include "tests/bench/other_measurements.h"
#include "tests/bench/verbs_end.h"
#include "tests/sim/connect.h"
#include "tools/bench/core_to_core.h"
#include "tools/common/options.h"

namespace pollux::bench {
namespace {

// Of perftest, where it is not told otherwise.
constexpr uint64_t kSendsUnderWay = 128;
constexpr int kTaken = 16;             // completions at once
constexpr uint64_t kEvery = 100;       // of so many requests the last is signalled,
constexpr uint32_t kEveryUpTo = 8192;  // in bytes; of longer ones each

// Until both are ready: who has spun before it is measured is the first to lose a CPU that others
// want too.
constexpr useconds_t kNapUs = 100;

constexpr uint32_t kMaxBytes = 1u << 20;
constexpr uint32_t kAddresses[] = {0xC0000201, 0xC0000202};

enum Side : size_t { kServer, kClient };

struct Asked {
  std::array<std::string, 2> interfaces;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool round_trip = false;
  uint32_t bytes = 0;
  uint64_t count = 0;
};

absl::StatusOr<Asked> ParseOperands(const std::vector<std::string>& operands) {
  Asked asked;
  asked.interfaces = {operands[0], operands[1]};
  const std::string& operation = operands[2];
  if (operation == "write") {
    asked.opcode = IBV_WR_RDMA_WRITE;
  } else if (operation == "read") {
    asked.opcode = IBV_WR_RDMA_READ;
  } else if (operation != "send") {
    return absl::InvalidArgumentError(operation + ": send, write or read");
  }
  asked.round_trip = operands[3] == "lat";
  if (!asked.round_trip && operands[3] != "bw") {
    return absl::InvalidArgumentError(operands[3] + ": lat or bw");
  }
  if (!absl::SimpleAtoi(operands[4], &asked.bytes) || asked.bytes == 0 || asked.bytes > kMaxBytes ||
      !absl::SimpleAtoi(operands[5], &asked.count) || asked.count < 2) {
    return absl::InvalidArgumentError(
        absl::StrFormat("BYTES are 1 to %u, COUNT at least 2", kMaxBytes));
  }
  return asked;
}

enum class Step : uint32_t { kStarted, kKnown, kReady, kFinished };

// In memory that both processes share.
struct SharedState {
  std::array<VerbsPeer, 2> ends;
  std::array<std::atomic<Step>, 2> steps{};
};

// One of the two programs.
class Program {
 public:
  // `other_process`: 0 where that ends this one with itself.
  Program(const Asked& asked, Side side, SharedState& shared_state, pid_t other_process)
      : asked_(asked), side_(side), shared_state_(shared_state), other_process_(other_process) {}

  absl::Status Open();
  // Microseconds of the median round trip, or bytes a second.
  absl::StatusOr<double> Run();
  void Close() {
    end_.reset();
    device_->Close();
  }

 private:
  // As ibv_poll_cq(3) over Pollux: the port is asked when nothing waits.
  int Poll(verbs::CompletionQueue* cq, int most, ibv_wc* wc) {
    int taken = cq->Poll(most, wc);
    if (taken == 0) {
      end_->worker.Poll(clock_.NowNs());
      taken = cq->Poll(most, wc);
    }
    for (int i = 0; i < taken; ++i) Check(wc[i]);
    return taken;
  }
  void AwaitOne(verbs::CompletionQueue* cq) {
    ibv_wc wc;
    while (Poll(cq, 1, &wc) == 0) {
    }
  }
  void Post(bool signalled) {
    posted_ns_.push_back(clock_.NowNs());
    end_->Post(asked_.opcode, asked_.bytes, peer_, signalled);
  }

  void SendLatency();
  void WriteLatency();
  void ReadLatency();
  void Stream();
  void TakeStream();
  double MedianRoundNs() const;
  // Polls until the other side has come so far too.
  absl::Status Meet(Step step);

  const Asked& asked_;
  const Side side_;
  SharedState& shared_state_;
  const pid_t other_process_;
  engine::Clock clock_;
  std::unique_ptr<engine::Device> device_;
  std::unique_ptr<VerbsEnd> end_;
  VerbsPeer peer_;
  std::vector<uint64_t> posted_ns_;  // of each message
};

absl::Status Program::Open() {
  engine::DeviceOptions options;
  options.port = absl::StrCat("net_af_packet0,iface=", asked_.interfaces[side_]);
  options.addresses = {InterfaceAddress::Ipv4(kAddresses[side_])};
  absl::StatusOr<std::unique_ptr<engine::Device>> device = engine::Device::Open(options);
  if (!device.ok()) return device.status();
  device_ = *std::move(device);
  end_ = std::make_unique<VerbsEnd>(device_.get());
  if (absl::Status status = end_->Create(VerbsEnd::Queues::kTwo); !status.ok()) return status;
  // What WriteLatency() waits for.
  end_->buffer[asked_.bytes - 1] = 0;
  return absl::OkStatus();
}

absl::Status Program::Meet(Step step) {
  shared_state_.steps[side_].store(step, std::memory_order_release);
  while (shared_state_.steps[1 - side_].load(std::memory_order_acquire) < step) {
    end_->worker.Poll(clock_.NowNs());
    if (step != Step::kFinished) usleep(kNapUs);
    siginfo_t ended{};
    if (other_process_ != 0 &&
        waitid(P_PID, static_cast<id_t>(other_process_), &ended, WEXITED | WNOHANG | WNOWAIT) ==
            0 &&
        ended.si_pid != 0) {
      return absl::UnavailableError("the other side has ended");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Program::Run() {
  shared_state_.ends[side_] = end_->ToPeer();
  if (absl::Status status = Meet(Step::kKnown); !status.ok()) return status;
  peer_ = shared_state_.ends[1 - side_];
  ibv_qp_attr attr = ReliableAttributes(*device_, peer_.gid, peer_.mtu);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = verbs::kMaxRdAtomic;
  absl::Status connected = sim::BringToRts(end_->worker, end_->qp, peer_.qpn, attr);
  if (!connected.ok()) return connected;
  while (end_->qp->rq_depth() < 2 * VerbsEnd::kDepth) end_->Receive();
  if (absl::Status status = Meet(Step::kReady); !status.ok()) return status;
  posted_ns_.reserve(asked_.count);
  const uint64_t start_ns = clock_.NowNs();
  if (asked_.round_trip && asked_.opcode == IBV_WR_SEND) {
    SendLatency();
  } else if (asked_.round_trip && asked_.opcode == IBV_WR_RDMA_WRITE) {
    WriteLatency();
  } else if (side_ == kServer && asked_.opcode == IBV_WR_SEND) {
    TakeStream();
  } else if (side_ == kClient) {
    asked_.round_trip ? ReadLatency() : Stream();
  }
  const auto elapsed_ns = static_cast<double>(clock_.NowNs() - start_ns);
  if (absl::Status status = Meet(Step::kFinished); !status.ok()) return status;
  if (asked_.round_trip) return MedianRoundNs() * 1e-3;
  return static_cast<double>(asked_.count) * asked_.bytes * 1e9 / elapsed_ns;
}

// From one message to the next; 0 on the side that answers without one.
double Program::MedianRoundNs() const {
  std::vector<uint64_t> rounds;
  for (size_t i = 1; i < posted_ns_.size(); ++i) {
    rounds.push_back(posted_ns_[i] - posted_ns_[i - 1]);
  }
  if (rounds.empty()) return 0;
  const auto middle = rounds.begin() + static_cast<ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return static_cast<double>(*middle);
}

void Program::SendLatency() {
  const auto receive = [this] {
    AwaitOne(end_->cq);
    end_->Receive();
  };
  for (uint64_t i = 0; i < asked_.count; ++i) {
    if (side_ == kServer) receive();
    Post(true);
    AwaitOne(end_->send_cq);
    if (side_ == kClient) receive();
  }
}

// The last byte of each message is its number, for which the other side waits; 0 is none's.
void Program::WriteLatency() {
  const volatile uint8_t* const seen = &end_->buffer[asked_.bytes - 1];
  uint8_t* const number = end_->to_send() + asked_.bytes - 1;
  const auto see = [&](uint64_t i) {
    while (*seen != i % UINT8_MAX + 1) end_->worker.Poll(clock_.NowNs());
  };
  for (uint64_t i = 0; i < asked_.count; ++i) {
    if (side_ == kServer) see(i);
    *number = static_cast<uint8_t>(i % UINT8_MAX + 1);
    Post(true);
    AwaitOne(end_->send_cq);
    if (side_ == kClient) see(i);
  }
}

void Program::ReadLatency() {
  for (uint64_t i = 0; i < asked_.count; ++i) {
    Post(true);
    AwaitOne(end_->send_cq);
  }
}

void Program::Stream() {
  const uint64_t every = asked_.bytes > kEveryUpTo ? 1 : kEvery;
  uint64_t posted = 0, completed = 0;
  std::array<ibv_wc, kTaken> completions;
  while (completed < asked_.count) {
    for (; posted < asked_.count && posted - completed < kSendsUnderWay; ++posted) {
      Post((posted + 1) % every == 0 || posted + 1 == asked_.count);
    }
    const int taken = Poll(end_->send_cq, kTaken, completions.data());
    completed = std::min(completed + static_cast<uint64_t>(taken) * every, asked_.count);
  }
}

void Program::TakeStream() {
  std::array<ibv_wc, kTaken> completions;
  for (uint64_t received = 0; received < asked_.count;) {
    const int taken = Poll(end_->cq, kTaken, completions.data());
    for (int i = 0; i < taken; ++i) end_->Receive();
    received += static_cast<uint64_t>(taken);
  }
}

absl::StatusOr<double> RunSide(const Asked& asked, Side side, SharedState& shared_state,
                               pid_t other) {
  const std::vector<int> cpus = tools::UsableCpus();
  if (cpus.size() >= shared_state.steps.size() && !tools::PinThread(cpus[side])) {
    return absl::UnavailableError(absl::StrCat("CPU ", cpus[side], " was taken away meanwhile"));
  }
  if (absl::Status status = engine::InitEal({}); !status.ok()) return status;
  Program program(asked, side, shared_state, other);
  if (absl::Status status = program.Open(); !status.ok()) return status;
  const absl::StatusOr<double> figure = program.Run();
  program.Close();
  return figure;
}

int Tell(const absl::Status& status) {
  if (status.ok()) return tools::kExitOk;
  std::fprintf(stderr, "bench native: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? tools::kExitUsage : tools::kExitFailure;
}

absl::Status RunBoth(const Asked& asked) {
  void* const shared =
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return absl::ErrnoToStatus(errno, "memory for two processes");
  auto* const shared_state = new (shared) SharedState();
  const pid_t server = fork();
  if (server < 0) return absl::ErrnoToStatus(errno, "a process for the server");
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(Tell(RunSide(asked, kServer, *shared_state, 0).status()));
  }
  const absl::StatusOr<double> figure = RunSide(asked, kClient, *shared_state, server);
  if (!figure.ok()) kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  if (figure.ok()) std::printf("%.6g\n", *figure);
  return figure.status();
}

}  // namespace

int MeasureNative(int argc, char** argv) {
  tools::Options options(
      "bench native IFACE IFACE send|write|read lat|bw BYTES COUNT   (tests/bench/programs.py)",
      "One figure of the native API between the two ends of a veth, taken as perftest takes it,\n"
      "each end in a process of its own: microseconds of the median round trip, or bytes a\n"
      "second with 128 work requests under way.");
  const auto operands = options.Parse(argc, argv, 6, 6);
  if (options.help_asked()) {
    std::printf("%s", options.Help().c_str());
    return tools::kExitOk;
  }
  if (!operands.ok()) return Tell(operands.status());
  const absl::StatusOr<Asked> asked = ParseOperands(*operands);
  return Tell(asked.ok() ? RunBoth(*asked) : asked.status());
}

}  // namespace pollux::bench
