#include "tests/bench/tirpc_load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "examples/rpcgen/block_binding.h"
#include "examples/rpcgen/block_store.h"
#include "rpcrdma/tirpc/client_handle.h"
#include "rpcrdma/tirpc/service.h"
#include "tests/bench/namespace_pair.h"
#include "tools/common/node.h"
#include "tools/tirpc/binding_table.h"

// Of rpcgen -m.
extern "C" void block_store_1(svc_req* request, SVCXPRT* transport);

namespace pollux::bench {
namespace {

constexpr uint16_t kPort = 20049;
constexpr uint32_t kTimeoutMs = 25'000;
constexpr int kTickMs = 20;  // in which a service hears that it is to end
constexpr int kNoWait = 0;
constexpr uint32_t k4k = 4096;
constexpr uint32_t k1m = BLOCK_MAX_BYTES;

// xdr_void() has no arguments, so that it is no xdrproc_t.
bool_t Nothing(XDR* /*xdr*/, void* /*nothing*/) { return TRUE; }

// A thread that runs what svc_run() does, until it is told to end.
class ServiceThread {
 public:
  using Make = std::function<absl::StatusOr<SVCXPRT*>()>;
  // `make` runs on the thread, which looks for calls at least every `wait_ms`.
  static absl::StatusOr<std::unique_ptr<ServiceThread>> Start(Make make, int wait_ms = kTickMs) {
    std::unique_ptr<ServiceThread> service(new ServiceThread(wait_ms));
    std::promise<absl::Status> made;
    service->thread_ = std::thread([&made, make, raw = service.get()] {
      absl::StatusOr<SVCXPRT*> transport = make();
      made.set_value(transport.status());
      if (transport.ok()) raw->Serve(*transport);
    });
    absl::Status status = made.get_future().get();
    if (!status.ok()) return status;
    return service;
  }
  ~ServiceThread() {
    stop_ = true;
    thread_.join();
  }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

 private:
  explicit ServiceThread(int wait_ms) : wait_ms_(wait_ms) {}
  void Serve(SVCXPRT* transport) {
    while (!stop_) {
      std::vector<pollfd> polled(svc_pollfd, svc_pollfd + svc_max_pollfd);
      const int ready = poll(polled.data(), polled.size(), wait_ms_);
      if (ready > 0) svc_getreq_poll(polled.data(), ready);
    }
    svc_destroy(transport);
  }

  const int wait_ms_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct ClientDeleter {
  void operator()(CLIENT* client) const { clnt_destroy(client); }
};
using OwnedClient = std::unique_ptr<CLIENT, ClientDeleter>;

// Seconds of one of `count` calls; `call` says whether it went well.
absl::StatusOr<double> Time(CLIENT* client, const char* what, uint64_t count,
                            const std::function<bool()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    if (!call()) return absl::UnavailableError(clnt_sperror(client, what));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(count);
}

absl::StatusOr<double> TimeNull(CLIENT* client, uint64_t count) {
  return Time(client, "NULL", count, [client] {
    return clnt_call(client, NULLPROC, reinterpret_cast<xdrproc_t>(Nothing), nullptr,
                     reinterpret_cast<xdrproc_t>(Nothing), nullptr,
                     (timeval{.tv_sec = 25, .tv_usec = 0})) == RPC_SUCCESS;
  });
}

absl::StatusOr<double> TimeWrite(CLIENT* client, uint32_t bytes, uint64_t count) {
  std::string name = "bench", data(bytes, 'x');
  put_arguments arguments{};
  arguments.name = name.data();
  arguments.data.data_len = bytes;
  arguments.data.data_val = data.data();
  return Time(client, "PUT", count, [&] {
    block_status result = BLOCK_NOT_FOUND;
    return put_1(&arguments, &result, client) == RPC_SUCCESS && result == BLOCK_OK;
  });
}

absl::StatusOr<double> TimeRead(CLIENT* client, uint32_t bytes, uint64_t count) {
  std::string name = "bench";
  block_name names = name.data();
  return Time(client, "GET", count, [&] {
    get_result result{};
    const bool got = get_1(&names, &result, client) == RPC_SUCCESS && result.status == BLOCK_OK &&
                     result.get_result_u.data.data_len == bytes;
    clnt_freeres(client, reinterpret_cast<xdrproc_t>(xdr_get_result),
                 reinterpret_cast<char*>(&result));
    return got;
  });
}

absl::StatusOr<TirpcTimes> TimeCalls(CLIENT* client, uint64_t calls) {
  TirpcTimes times;
  const auto take = [](absl::StatusOr<double> measured, double* time) {
    if (measured.ok()) *time = *measured;
    return measured.status();
  };
  const uint64_t small = calls / 2 + 1, large = calls / 40 + 1;
  absl::Status status = take(TimeNull(client, calls + 1), &times.null_s);
  if (status.ok()) status = take(TimeWrite(client, k4k, small), &times.write_4k_s);
  if (status.ok()) status = take(TimeRead(client, k4k, small), &times.read_4k_s);
  if (status.ok()) status = take(TimeWrite(client, k1m, large), &times.write_1m_s);
  if (status.ok()) status = take(TimeRead(client, k1m, large), &times.read_1m_s);
  if (!status.ok()) return status;
  return times;
}

rpcrdma::tirpc::Host HostOf(tools::Node& node) {
  return {.worker = &node.device().worker(),
          .manager = &node.manager(),
          .keeps = nullptr,
          .shared_poll = node.shared_poll()};
}

absl::StatusOr<TirpcTimes> TimeNodes(tools::Node& server, tools::Node& client, uint64_t calls) {
  if (absl::Status status = tools::StateBinding(block_binding); !status.ok()) return status;
  rpcrdma::tirpc::Service* serving = nullptr;
  auto service = ServiceThread::Start([&server, &serving]() -> absl::StatusOr<SVCXPRT*> {
    const auto upper = tools::FindBinding(BLOCK_STORE, BLOCK_STORE_V1);
    auto made = rpcrdma::tirpc::Service::Create(HostOf(server), kPort, upper.LargestMessage());
    if (!made.ok()) return made.status();
    if (absl::Status status = (*made)->Add(upper, block_store_1); !status.ok()) return status;
    serving = *made;
    return serving->transport();
  });
  if (!service.ok()) return service.status();
  auto handle =
      rpcrdma::tirpc::MakeClient(HostOf(client), {.address = server.device().gid(), .port = kPort},
                                 BLOCK_STORE, BLOCK_STORE_V1, &tools::FindBinding, kTimeoutMs);
  if (!handle.ok()) return handle.status();
  const OwnedClient owned(*handle);
  absl::StatusOr<TirpcTimes> times = TimeCalls(owned.get(), calls);
  if (!times.ok()) return times;
  const rpcrdma::Counters at_client = rpcrdma::tirpc::CountersOf(owned.get());
  const rpcrdma::Counters at_server = serving->counters();
  const auto moved = static_cast<double>(at_server.bytes_read + at_server.bytes_written);
  times->client_copies = static_cast<double>(at_client.bytes_copied) / moved;
  times->server_copies = static_cast<double>(at_server.bytes_copied) / moved;
  return times;
}

absl::StatusOr<SVCXPRT*> MakeTcpService() {
  SVCXPRT* const transport = svctcp_create(RPC_ANYSOCK, 0, 0);
  if (transport == nullptr) return absl::UnavailableError("no TCP service can be made");
  if (!svc_reg(transport, BLOCK_STORE, BLOCK_STORE_V1, block_store_1, nullptr)) {
    return absl::UnavailableError("the TCP service cannot be registered");
  }
  return transport;
}

// Makes the sockets of one side, on the thread that it is called on.
using Place = std::function<absl::Status(absl::FunctionRef<void()> make)>;

absl::StatusOr<TirpcTimes> TimeTcpAt(uint32_t server_address, uint64_t calls, int server_wait_ms,
                                     const Place& server_place, const Place& client_place) {
  std::atomic<uint16_t> port = 0;
  const auto make = [&]() -> absl::StatusOr<SVCXPRT*> {
    absl::StatusOr<SVCXPRT*> transport = nullptr;
    const absl::Status status = server_place([&transport] { transport = MakeTcpService(); });
    if (!status.ok()) return status;
    if (transport.ok()) port = (*transport)->xp_port;
    return transport;
  };
  auto service = ServiceThread::Start(make, server_wait_ms);
  if (!service.ok()) return service.status();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(server_address);
  int fd = RPC_ANYSOCK;
  CLIENT* client = nullptr;
  const absl::Status status = client_place(
      [&] { client = clnttcp_create(&address, BLOCK_STORE, BLOCK_STORE_V1, &fd, 0, 0); });
  if (!status.ok()) return status;
  if (client == nullptr) return absl::UnavailableError(clnt_spcreateerror("TCP"));
  const OwnedClient owned(client);
  return TimeCalls(client, calls);
}

}  // namespace

absl::StatusOr<TirpcTimes> TimePollux(engine::Device::Pair devices, uint64_t calls) {
  auto server = tools::Node::Start(std::move(devices.first), {.shared = true});
  if (!server.ok()) return server.status();
  auto client = tools::Node::Start(std::move(devices.second), {.shared = true});
  if (!client.ok()) return client.status();
  absl::StatusOr<TirpcTimes> times = TimeNodes(**server, **client, calls);
  for (auto* node : {client->get(), server->get()}) node->StopPolling();
  for (auto* node : {client->get(), server->get()}) node->device().Close();
  return times;
}

absl::StatusOr<TirpcTimes> TimeTcp(uint64_t calls, TcpServer server) {
  const auto here = [](absl::FunctionRef<void()> work) {
    work();
    return absl::OkStatus();
  };
  const int wait_ms = server == TcpServer::kPolls ? kNoWait : kTickMs;
  return TimeTcpAt(INADDR_LOOPBACK, calls, wait_ms, here, here);
}

absl::StatusOr<TirpcTimes> TimeTcpByVeth(uint64_t calls) {
  auto made = NamespacePair::Make();
  if (!made.ok()) return made.status();
  const NamespacePair& pair = **made;
  return TimeTcpAt(
      NamespacePair::kFirstAddress, calls, kTickMs,
      [&pair](absl::FunctionRef<void()> work) { return pair.InFirst(work); },
      [&pair](absl::FunctionRef<void()> work) { return pair.InSecond(work); });
}

}  // namespace pollux::bench
