// A service that is stopped while it reads its configuration again.
#include "tools/file_service/session.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "stack/engine/eal.h"
#include "tools/common/interrupt.h"

namespace pollux::tools {
namespace {

constexpr std::chrono::seconds kHangGuard{100};

// Shared with the thread of the reload, which outlives the service.
struct Reading {
  std::promise<void> begun, goes_on;
  std::atomic<bool> applied = false;
};

TEST(StayUntilInterruptedTest, EndsWhileAReloadStillReads) {
  ASSERT_TRUE(engine::InitEal().ok());
  engine::DeviceOptions options;
  options.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
  auto devices = engine::Device::OpenPair(options, options);
  ASSERT_TRUE(devices.ok()) << devices.status();
  auto node = Node::Start(std::move(devices->first), {});
  ASSERT_TRUE(node.ok()) << node.status();
  CatchInterrupts(ClosedPipe::kInterrupts, Hangup::kReloads);

  auto reading = std::make_shared<Reading>();
  ServiceActions actions{.name = "test"};
  actions.reload = [reading]() -> absl::StatusOr<ServiceActions::Apply> {
    reading->begun.set_value();
    reading->goes_on.get_future().wait();
    return ServiceActions::Apply([reading] {
      reading->applied = true;
      return absl::OkStatus();
    });
  };
  auto stayed =
      std::async(std::launch::async, [&] { return StayUntilInterrupted(**node, actions); });
  kill(getpid(), SIGHUP);
  EXPECT_EQ(reading->begun.get_future().wait_for(kHangGuard), std::future_status::ready);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(stayed.wait_for(kHangGuard), std::future_status::ready);
  reading->goes_on.set_value();
  EXPECT_TRUE(stayed.get().ok());
  // The thread ends by itself, and what it has read is dropped.
  actions.reload = nullptr;
  const auto give_up = std::chrono::steady_clock::now() + kHangGuard;
  while (reading.use_count() > 1 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(reading.use_count(), 1);
  EXPECT_FALSE(reading->applied);

  (*node)->StopPolling();
  (*node)->device().Close();
  devices->second->Close();
}

}  // namespace
}  // namespace pollux::tools
