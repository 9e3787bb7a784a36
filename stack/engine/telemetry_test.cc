#include "stack/engine/telemetry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "stack/engine/eal.h"

namespace pollux::engine {
namespace {

class TelemetryTest : public ::testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kLong{60'000};

  static void SetUpTestSuite() { ASSERT_TRUE(InitEal().ok()); }
  std::unique_ptr<Worker> MakeWorker() {
    WorkerConfig config;
    config.packet_buffers = 127;
    return Worker::Create(config).value();
  }
  static std::string Ask(std::string_view topic, std::string_view parameters) {
    const auto stats = AskWorkers(topic, parameters, kLong);
    return stats.ok() ? "" : std::string(stats.status().message());
  }
};

// A thread that polls a worker; to go before the worker.
class Polling {
 public:
  explicit Polling(Worker* worker)
      : thread_([this, worker] {
          for (uint64_t now_ns = 0; !stop_; now_ns += 1000) {
            worker->Poll(now_ns);
            std::this_thread::yield();
          }
        }) {}
  ~Polling() {
    stop_ = true;
    thread_.join();
  }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(TelemetryTest, TheOwnerAnswersQueries) {
  const std::unique_ptr<Worker> worker = MakeWorker();
  const Published published(worker.get());
  const Polling polling(worker.get());
  const auto core = AskWorkers("worker", "", kLong);
  ASSERT_TRUE(core.ok()) << core.status();
  EXPECT_FALSE(core->fields().empty());
  EXPECT_TRUE(AskWorkers("worker", absl::StrCat(published.number()), kLong).ok());
  const auto all = AskWorkers("workers", "", kLong);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->fields()[0].first, absl::StrCat(published.number(), "/queue_pairs"));
}

TEST_F(TelemetryTest, UnknownTopicsAndObjectsAreErrors) {
  EXPECT_EQ(Ask("nonsense", ""), "unknown topic \"nonsense\"");
  const std::unique_ptr<Worker> worker = MakeWorker();
  const Published published(worker.get());
  const Polling polling(worker.get());
  EXPECT_EQ(Ask("worker", "999"), "no worker 999 here");
  EXPECT_EQ(Ask("qp", "12345"), "qp: no 12345 here");
  EXPECT_EQ(Ask("qp", ""), "qp: give its number");
  for (const char* wrong : {"x", "1,x", "1,2,3", ",", "-1", "1 2"}) {
    EXPECT_NE(Ask("qp", wrong).find("one or two numbers"), std::string::npos) << wrong;
  }
}

TEST_F(TelemetryTest, WithoutAPublishedWorkerQueriesFail) {
  EXPECT_EQ(Ask("worker", ""), "no worker here");
}

TEST_F(TelemetryTest, AQueryToAnUnpolledWorkerTimesOut) {
  const std::unique_ptr<Worker> worker = MakeWorker();
  const Published published(worker.get());
  const auto stats = AskWorkers("worker", "", std::chrono::milliseconds(1));
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kDeadlineExceeded);
  // The late answer to nobody does no harm.
  worker->Poll(1);
}

TEST_F(TelemetryTest, AQueryToAWorkerBeingDestroyedFails) {
  std::unique_ptr<Worker> worker = MakeWorker();
  auto published = std::make_unique<Published>(worker.get());
  std::atomic<bool> asked{false};
  absl::Status status;
  std::thread asker([&] {
    asked = true;
    status = AskWorkers("worker", "", kLong).status();
  });
  while (!asked) std::this_thread::yield();
  published.reset();
  worker.reset();
  asker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
}

TEST_F(TelemetryTest, EachOfTwoWorkersAnswersItsOwnQueries) {
  const std::unique_ptr<Worker> a = MakeWorker();
  const std::unique_ptr<Worker> b = MakeWorker();
  const Published first(a.get());
  const Published second(b.get());
  EXPECT_NE(first.number(), second.number());
  auto pd = b->AllocPd();
  auto cq = b->CreateCq(4);
  verbs::QueuePairInitAttr init;
  init.pd = *pd;
  init.send_cq = init.recv_cq = *cq;
  const Qpn qpn = b->CreateQp(std::move(init)).value()->qpn();
  const Polling polling_a(a.get());
  const Polling polling_b(b.get());
  EXPECT_EQ(Ask("qp", absl::StrCat(qpn.value)), "") << "whoever has it";
  EXPECT_EQ(Ask("qp", absl::StrCat(qpn.value, ",", second.number())), "");
  EXPECT_NE(Ask("qp", absl::StrCat(qpn.value, ",", first.number())), "");
}

}  // namespace
}  // namespace pollux::engine
