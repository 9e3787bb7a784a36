// SVCXPRTs and CLIENTs of libtirpc, each end with a thread that polls, on one wire of this process.
#include "rpcrdma/tirpc/service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <rpc/rpc.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cm/manager.h"
#include "rpcrdma/tirpc/client_handle.h"
#include "stack/engine/device.h"
#include "stack/engine/eal.h"
#include "stack/engine/polling/progress_thread.h"
#include "stack/engine/polling/shared_poll.h"

namespace pollux::rpcrdma::tirpc {
namespace {

constexpr uint16_t kPort = 20049;
constexpr uint32_t kProgram = 0x20000077;
constexpr uint32_t kVersion = 1;
constexpr uint32_t kConnectTimeoutMs = 100'000;
constexpr timeval kTimeout = {.tv_sec = 100, .tv_usec = 0};

// Of the program that is served: a word there and back.
enum : rpcproc_t {
  kNegate = 1,
  kLeave = 2,  // its connection ends when it is answered
  kNap = 3,    // so many microseconds
  kRemember = 4,
  kClose = 5,  // the service ends when it is answered
};
// Which connection kRemember came by, and what it is one of; of the service's thread.
SVCXPRT* remembered = nullptr;
Service* serving = nullptr;
std::atomic<bool> napping = false;  // kNap has begun

bool_t XdrWord(XDR* xdr, u_int* word) { return xdr_u_int(xdr, word); }
bool_t XdrNothing(XDR* /*xdr*/, void* /*nothing*/) { return TRUE; }

void Dispatch(svc_req* request, SVCXPRT* transport) {
  if (request->rq_proc == NULLPROC) {
    svc_sendreply(transport, reinterpret_cast<xdrproc_t>(XdrNothing), nullptr);
    return;
  }
  u_int word = 0;
  if (!svc_getargs(transport, reinterpret_cast<xdrproc_t>(XdrWord), &word)) {
    return svcerr_decode(transport);
  }
  if (request->rq_proc == kNap) {
    napping = true;
    std::this_thread::sleep_for(std::chrono::microseconds(word));
  }
  if (request->rq_proc == kRemember) remembered = transport;
  word = ~word;
  svc_sendreply(transport, reinterpret_cast<xdrproc_t>(XdrWord), reinterpret_cast<char*>(&word));
  if (request->rq_proc == kLeave) svc_destroy(transport);
  if (request->rq_proc == kClose) svc_destroy(serving->transport());
}

UpperLayer FindUpperLayer(uint32_t program, uint32_t version) {
  return UpperLayer::Default(program, version);
}

// One of the two: a device, and who polls it.
class End {
 public:
  // `shared`: threads that wait for it poll it, too.
  End(std::unique_ptr<engine::Device> device, bool shared) : device_(std::move(device)) {
    engine::Worker* const worker = &device_->worker();
    manager_ = *cm::Manager::Create(worker);
    const auto turn = [worker](uint64_t now_ns) { return worker->Poll(now_ns); };
    if (shared) shared_poll_ = std::make_unique<engine::SharedPoll>(turn);
    thread_ = shared ? *engine::ProgressThread::Start({}, shared_poll_.get())
                     : *engine::ProgressThread::Start({}, turn);
    // Its thread has polled.
    RunOn({.worker = worker}, [] {});
  }
  ~End() { Stop(); }
  void Stop() {
    thread_.reset();
    manager_.reset();
  }
  Host host() {
    return {
        .worker = &device_->worker(), .manager = manager_.get(), .shared_poll = shared_poll_.get()};
  }
  engine::Device& device() { return *device_; }

 private:
  std::unique_ptr<engine::Device> device_;
  std::unique_ptr<cm::Manager> manager_;
  std::unique_ptr<engine::SharedPoll> shared_poll_;
  std::unique_ptr<engine::ProgressThread> thread_;
};

// What svc_run() does, until it is told to end; and what it is asked to do in between.
class ServiceThread {
 public:
  explicit ServiceThread(const Host& host, const ServiceLimits& limits = {})
      : thread_([this, host, limits] { Run(host, limits); }) {
    Do([] {});
  }
  ~ServiceThread() {
    stop_ = true;
    thread_.join();
  }
  void Do(const std::function<void()>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = work;
    }
    asked_ = true;
    while (asked_) std::this_thread::yield();
  }

 private:
  void Run(const Host& host, const ServiceLimits& limits) {
    constexpr int kTickMs = 5;
    const UpperLayer upper = FindUpperLayer(kProgram, kVersion);
    serving = *Service::Create(host, kPort, upper.LargestMessage(), limits);
    serving->SetOnDestroy([] { serving = nullptr; });
    EXPECT_TRUE(serving->Add(upper, Dispatch).ok());
    while (!stop_) {
      std::vector<pollfd> polled(svc_pollfd, svc_pollfd + svc_max_pollfd);
      const int ready = poll(polled.data(), polled.size(), kTickMs);
      if (ready > 0) svc_getreq_poll(polled.data(), ready);
      if (!asked_) continue;
      const std::lock_guard lock(mutex_);
      work_();
      asked_ = false;
    }
    svc_unreg(kProgram, kVersion);
    if (serving != nullptr) svc_destroy(serving->transport());
  }

  std::atomic<bool> stop_{false}, asked_{false};
  std::mutex mutex_;
  std::function<void()> work_;
  std::thread thread_;
};

struct ClientDeleter {
  void operator()(CLIENT* client) const { clnt_destroy(client); }
};
using OwnedClient = std::unique_ptr<CLIENT, ClientDeleter>;

// Whether who waits drives.
class ServiceTest : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(engine::InitEal({.memory_mib = 512}).ok()); }

  void SetUp() override {
    engine::DeviceOptions server, client;
    server.addresses = {InterfaceAddress::Ipv4(0xC0000201)};
    client.addresses = {InterfaceAddress::Ipv4(0xC0000202)};
    auto pair = engine::Device::OpenPair(server, client);
    ASSERT_TRUE(pair.ok()) << pair.status();
    server_ = std::make_unique<End>(std::move(pair->first), GetParam());
    client_ = std::make_unique<End>(std::move(pair->second), GetParam());
    serving_ = std::make_unique<ServiceThread>(server_->host());
  }
  void TearDown() override {
    serving_.reset();
    for (End* end : {client_.get(), server_.get()}) end->Stop();
    for (End* end : {client_.get(), server_.get()}) end->device().Close();
  }

  OwnedClient MakeOne() {
    auto client = MakeClient(client_->host(), {.address = server_->device().gid(), .port = kPort},
                             kProgram, kVersion, &FindUpperLayer, kConnectTimeoutMs);
    EXPECT_TRUE(client.ok()) << client.status();
    return OwnedClient(client.ok() ? *client : nullptr);
  }
  static void Call(const OwnedClient& client, rpcproc_t procedure, u_int word) {
    u_int result = 0;
    const clnt_stat status =
        clnt_call(client.get(), procedure, reinterpret_cast<xdrproc_t>(XdrWord),
                  reinterpret_cast<char*>(&word), reinterpret_cast<xdrproc_t>(XdrWord),
                  reinterpret_cast<char*>(&result), kTimeout);
    EXPECT_EQ(status, RPC_SUCCESS) << clnt_sperrno(status);
    EXPECT_EQ(result, ~word);
  }

  std::unique_ptr<End> server_, client_;
  std::unique_ptr<ServiceThread> serving_;
};

TEST_P(ServiceTest, ThreadsCallThroughOwnAndSharedClients) {
  constexpr int kOwn = 3, kSharing = 2;
  constexpr u_int kCalls = 300;
  const OwnedClient shared = MakeOne();
  std::vector<std::thread> threads;
  for (int i = 0; i < kOwn + kSharing; ++i) {
    threads.emplace_back([&, own = i < kOwn ? MakeOne() : nullptr] {
      for (u_int call = 0; call < kCalls; ++call) Call(own ? own : shared, kNegate, call);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(serving->counters().replies_sent, (kOwn + kSharing) * uint64_t{kCalls});
}

TEST_P(ServiceTest, AProgramThatCannotBeAnnouncedHasNoDispatchRoutine) {
  constexpr uint32_t kOther = kProgram + 1;
  const UpperLayer upper = FindUpperLayer(kOther, kVersion);
  const auto call = [this] {
    const OwnedClient client(*MakeClient(client_->host(),
                                         {.address = server_->device().gid(), .port = kPort},
                                         kOther, kVersion, &FindUpperLayer, kConnectTimeoutMs));
    return clnt_call(client.get(), NULLPROC, reinterpret_cast<xdrproc_t>(XdrNothing), nullptr,
                     reinterpret_cast<xdrproc_t>(XdrNothing), nullptr, kTimeout);
  };
  serving_->Do([&] {
    EXPECT_TRUE(absl::IsUnavailable(
        serving->Add(upper, Dispatch, [] { return absl::UnavailableError("no rpcbind"); })));
  });
  EXPECT_EQ(call(), RPC_PROGUNAVAIL);
  serving_->Do([&] {
    UpperLayer changed = upper;
    changed.binding.others->idempotent = !changed.binding.others->idempotent;
    EXPECT_TRUE(absl::IsFailedPrecondition(serving->Add(changed, Dispatch)));
    EXPECT_TRUE(serving->Add(upper, Dispatch, [] { return absl::OkStatus(); }).ok());
    EXPECT_TRUE(absl::IsAlreadyExists(serving->Add(upper, Dispatch)));
  });
  EXPECT_EQ(call(), RPC_SUCCESS);
  serving_->Do([] { svc_unreg(kOther, kVersion); });
}

void OtherDispatch(svc_req* /*request*/, SVCXPRT* transport) { svcerr_noproc(transport); }

// The announcement could replace that of the service that has the program.
TEST_P(ServiceTest, AProgramOfAnotherDispatchRoutineIsNotAnnounced) {
  const UpperLayer upper = FindUpperLayer(kProgram, kVersion);
  const Host host = server_->host();
  serving_->Do([&upper, &host] {
    Service* const second = *Service::Create(host, kPort + 1, upper.LargestMessage());
    bool announced = false;
    const auto announce = [&announced] {
      announced = true;
      return absl::UnavailableError("no rpcbind");
    };
    EXPECT_TRUE(absl::IsAlreadyExists(second->Add(upper, OtherDispatch, announce)));
    EXPECT_FALSE(announced);
    svc_unreg(kProgram, kVersion);
    EXPECT_TRUE(absl::IsUnavailable(second->Add(upper, OtherDispatch, announce)));
    EXPECT_TRUE(announced);
    // Nothing of it is left.
    EXPECT_TRUE(svc_reg(serving->transport(), kProgram, kVersion, Dispatch, nullptr));
    svc_destroy(second->transport());
  });
  Call(MakeOne(), kNegate, 1);
}

// Who waits for longer than anybody polls for, sleeps; and is woken.
TEST_P(ServiceTest, SlowCallsWakeTheirSleepingCallers) {
  const OwnedClient one = MakeOne(), other = MakeOne();
  std::thread beside([&] {
    for (u_int i = 0; i < 100; ++i) Call(other, kNegate, i);
  });
  for (const u_int us : {1u, 30u, 60u, 100u, 200u, 1000u, 20'000u}) {
    for (int i = 0; i < 5; ++i) {
      Call(one, kNap, us);
      // The same on the other side.
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    }
  }
  beside.join();
}

// As with libtirpc's connections.
TEST_P(ServiceTest, ClntDestroyWaitsForACallOfAnotherThread) {
  OwnedClient client = MakeOne();
  clnt_stat status = RPC_FAILED;
  u_int word = 50'000, result = 0;
  napping = false;
  std::thread caller([&, used = client.get()] {
    status =
        clnt_call(used, kNap, reinterpret_cast<xdrproc_t>(XdrWord), reinterpret_cast<char*>(&word),
                  reinterpret_cast<xdrproc_t>(XdrWord), reinterpret_cast<char*>(&result), kTimeout);
  });
  while (!napping) std::this_thread::yield();
  client.reset();
  caller.join();
  EXPECT_EQ(status, RPC_SUCCESS);
  EXPECT_EQ(result, ~word);
}

// A flavor whose replies all have an invalid verifier, and which would be refreshed at once.
AUTH::auth_ops* InvalidReplies() {
  static AUTH::auth_ops operations = {
      .ah_nextverf = [](AUTH*) {},
      .ah_marshal = [](AUTH* auth, XDR* xdr) -> int {
        return xdr_opaque_auth(xdr, &auth->ah_cred) && xdr_opaque_auth(xdr, &auth->ah_verf);
      },
      .ah_validate = [](AUTH*, opaque_auth*) { return FALSE; },
      .ah_refresh = [](AUTH*, void*) { return TRUE; },
      .ah_destroy = [](AUTH*) {},
      .ah_wrap = [](AUTH*, XDR* xdr, xdrproc_t encode, caddr_t arguments) -> int {
        return encode(xdr, arguments);
      },
      .ah_unwrap = [](AUTH*, XDR* xdr, xdrproc_t decode, caddr_t results) -> int {
        return decode(xdr, results);
      }};
  return &operations;
}

// The procedure has run: to repeat the call would run it again.
TEST_P(ServiceTest, ACallWithAnInvalidReplyIsNotRepeated) {
  const OwnedClient client = MakeOne();
  AUTH* const before = client->cl_auth;
  AUTH invalid = *before;
  invalid.ah_ops = InvalidReplies();
  client->cl_auth = &invalid;
  const uint64_t replies = serving->counters().replies_sent;
  u_int word = 1, result = 0;
  EXPECT_EQ(clnt_call(client.get(), kNegate, reinterpret_cast<xdrproc_t>(XdrWord),
                      reinterpret_cast<char*>(&word), reinterpret_cast<xdrproc_t>(XdrWord),
                      reinterpret_cast<char*>(&result), kTimeout),
            RPC_AUTHERROR);
  rpc_err error;
  clnt_geterr(client.get(), &error);
  EXPECT_EQ(error.re_why, AUTH_INVALIDRESP);
  EXPECT_EQ(serving->counters().replies_sent, replies + 1);
  client->cl_auth = before;
}

// A dispatch routine hangs up on its caller, who connects again when he has something to ask.
TEST_P(ServiceTest, ADispatchRoutineMayDestroyItsConnection) {
  const OwnedClient leaver = MakeOne(), stayer = MakeOne();
  Call(stayer, kNegate, 1);
  for (u_int i = 0; i < 10; ++i) {
    Call(leaver, kLeave, i);
    Call(stayer, kNegate, i);
    Call(leaver, kNegate, i);
  }
  EXPECT_EQ(CountersOf(leaver.get()).reconnects, 10u);
  EXPECT_EQ(CountersOf(stayer.get()).reconnects, 0u);
}

// The same between calls.
TEST_P(ServiceTest, IdleConnectionsAreDestroyed) {
  const OwnedClient client = MakeOne(), other = MakeOne();
  Call(client, kRemember, 1);
  Call(other, kNegate, 1);
  serving_->Do([] { svc_destroy(remembered); });
  Call(client, kNegate, 2);
  Call(other, kNegate, 2);
  EXPECT_EQ(CountersOf(client.get()).reconnects, 1u);
  EXPECT_EQ(CountersOf(other.get()).reconnects, 0u);
}

TEST_P(ServiceTest, ADispatchRoutineMayDestroyTheListener) {
  const OwnedClient client = MakeOne(), other = MakeOne();
  Call(other, kNegate, 1);
  Call(client, kClose, 1);
  serving_->Do([] { EXPECT_EQ(serving, nullptr); });
  timeval soon = {.tv_sec = 1, .tv_usec = 0};
  clnt_control(other.get(), CLSET_TIMEOUT, reinterpret_cast<char*>(&soon));
  EXPECT_NE(clnt_call(other.get(), NULLPROC, reinterpret_cast<xdrproc_t>(XdrNothing), nullptr,
                      reinterpret_cast<xdrproc_t>(XdrNothing), nullptr, kTimeout),
            RPC_SUCCESS);
}

TEST_P(ServiceTest, MaxConnectionsPerClientLimitsOneAddress) {
  serving_.reset();
  serving_ = std::make_unique<ServiceThread>(server_->host(),
                                             ServiceLimits{.max_connections_per_client = 1});
  const OwnedClient first = MakeOne();
  Call(first, kNegate, 1);
  auto second = MakeClient(client_->host(), {.address = server_->device().gid(), .port = kPort},
                           kProgram, kVersion, &FindUpperLayer, kConnectTimeoutMs);
  EXPECT_FALSE(second.ok());
  if (second.ok()) clnt_destroy(*second);
  Call(first, kNegate, 2);
  EXPECT_EQ(serving->counters().connections_refused, 1u);
}

INSTANTIATE_TEST_SUITE_P(WaitModes, ServiceTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Drives" : "Sleeps"; });

}  // namespace
}  // namespace pollux::rpcrdma::tirpc
