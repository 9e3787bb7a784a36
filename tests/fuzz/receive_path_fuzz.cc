// Any frames at a server's port: Ethernet to RPC-over-RDMA, with a connection established and
// without. Nothing crashes, and nothing stalls: a client that comes after is served, all
// connections end, all packet buffers are home.
//
// An input is a sequence of records, see Attack::Run: frames as they are, packets that get the
// headers and the ICRC that let them in, messages on the connection, and time.
#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "cm/manager.h"
#include "rpcrdma/client.h"
#include "rpcrdma/raw_peer_for_test.h"
#include "rpcrdma/server.h"
#include "stack/base/byte_order.h"
#include "stack/engine/eal.h"
#include "stack/engine/loop/worker.h"
#include "stack/ip/interface.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/roce_packet.h"
#include "stack/wire/udp.h"

namespace pollux {
namespace {

constexpr uint32_t kNetwork = 0xC6336400;  // 198.51.100.0/24
constexpr uint16_t kPort = 20049;
constexpr uint16_t kMtu = 1500;
constexpr uint32_t kProgram = 0x20000099;
constexpr uint32_t kMaxItem = 8192;
constexpr uint32_t kLongCall = 4000;  // bytes of arguments
constexpr size_t kMaxRecords = 32;
constexpr size_t kMaxFrame = 2000;  // longer than the port carries
constexpr uint64_t kSecond = 1'000'000'000;
constexpr int kMaxPolls = 200'000;  // of one run: far more than 32 records can ask for
// Stands for the peer's key in messages; the segment's offset is then counted from its memory.
constexpr uint32_t kKeyMark = 0x4B4B4B4B;

void Require(bool holds) {
  if (!holds) std::abort();
}

// One end of a cable.
class Wire : public io::Link {
 public:
  ~Wire() override {
    for (rte_mbuf* frame : arriving_) rte_pktmbuf_free(frame);
  }
  void Join(Wire* other) { other_ = other; }
  void Arrive(rte_mbuf* frame) { arriving_.push_back(frame); }
  uint16_t Receive(rte_mbuf** frames, uint16_t capacity, uint64_t) override {
    uint16_t n = 0;
    for (; n < capacity && !arriving_.empty(); ++n, arriving_.pop_front()) {
      frames[n] = arriving_.front();
    }
    return n;
  }
  uint16_t Send(rte_mbuf** frames, uint16_t count, uint64_t) override {
    for (uint16_t i = 0; i < count; ++i) other_->Arrive(frames[i]);
    return count;
  }

 private:
  Wire* other_ = nullptr;
  std::deque<rte_mbuf*> arriving_;
};

struct Host {
  explicit Host(uint8_t number) {
    engine::WorkerConfig config;
    config.max_queue_pairs = 128;
    config.max_regions = 1024;
    config.max_objects = 256;
    config.packet_buffers = 255;
    config.seed[0] = number;
    config.start_ns = kSecond;
    worker = engine::Worker::Create(config).value();
    ip::InterfaceConfig port;
    port.mac = {2, 0, 0, 0, 0, number};
    port.addresses = {InterfaceAddress::Ipv4(kNetwork + number)};
    port.link_local = true;  // neighbour discovery and MLD are there to be attacked too
    port.mtu = kMtu;
    interface = std::make_unique<ip::Interface>(port);
    wire = std::make_unique<Wire>();
    worker->AddPort(interface.get(), wire.get());
    manager = cm::Manager::Create(worker.get()).value();
  }
  SocketAddress endpoint() const { return {interface->config().addresses[0].address, kPort}; }

  std::unique_ptr<engine::Worker> worker;
  std::unique_ptr<Wire> wire;
  std::unique_ptr<ip::Interface> interface;
  std::unique_ptr<cm::Manager> manager;
};

oncrpc::ProgramBinding Binding() {
  return {
      .program = kProgram,
      .version = 1,
      .procedures = {{.number = 0},
                     {.number = 1, .max_argument_bytes = kLongCall, .max_result_bytes = kLongCall},
                     {.number = 2,
                      .max_argument_bytes = 64,
                      .max_eligible_argument_bytes = kMaxItem,
                      .max_result_bytes = 4},
                     {.number = 3,
                      .max_argument_bytes = 4,
                      .max_result_bytes = 4,
                      .max_eligible_result_bytes = kMaxItem}}};
}

// Nothing, an echo, a put, a get.
rpcrdma::Program MakeProgram() {
  using namespace oncrpc;
  using namespace rpcrdma;
  static const std::vector<uint8_t> item(kMaxItem, 0x5A);
  Program program{.binding = Binding(), .procedures = {}};
  program.procedures.push_back({0, [](const CallView&, ReplyHandle reply) { reply.Send({}); }});
  program.procedures.push_back(
      {1, [](const CallView& call, ReplyHandle reply) { reply.Send(call.arguments); }});
  program.procedures.push_back({2, [](const CallView& call, ReplyHandle reply) {
                                  XdrReader in = call.reader();
                                  uint8_t result[4];
                                  uint32_t sum = 0;
                                  for (uint8_t byte : in.EligibleOpaque(kMaxItem)) sum += byte;
                                  StoreBe32(result, sum);
                                  reply.Send(result);
                                }});
  program.procedures.push_back(
      {3, [](const CallView& call, ReplyHandle reply) {
         XdrReader in = call.reader();
         const uint32_t length = in.Uint32();
         if (length > kMaxItem) return reply.Fail(AcceptStatus::kGarbageArguments);
         uint8_t result[4];
         XdrWriter out(absl::MakeSpan(result));
         const size_t position = out.EligibleOpaque(length);
         reply.Send(out.bytes(), ResultItem{.bytes = absl::MakeConstSpan(item).first(length),
                                            .position = position,
                                            .release = nullptr});
       }});
  return program;
}

class Attack {
 public:
  Attack() {
    client_.wire->Join(server_.wire.get());
    server_.wire->Join(client_.wire.get());
    rpcrdma::ServerConfig config;
    config.max_connections = 2 * kMaxRecords;
    config.credits = 4;
    config.bulk_buffers = 2;
    config.bulk_buffer_bytes = kMaxItem + 4096;
    rpc_ = rpcrdma::Server::Create(server_.worker.get(), server_.manager.get(), config).value();
    Require(rpc_->RegisterProgram(MakeProgram()).ok() && rpc_->Listen(kPort).ok());
    peer_ = std::make_unique<rpcrdma::RawPeer>(client_.worker.get(), client_.manager.get());
    // What long calls of the corpus name.
    const std::vector<uint8_t> arguments(kLongCall);
    const auto call =
        rpcrdma::CallOf({.xid = 5, .program = kProgram, .version = 1, .procedure = 1}, arguments);
    std::copy(call.begin(), call.end(), peer_->memory());
    peer_->Connect(server_.endpoint());
    Require(RunUntil([this] { return peer_->connected(); }, 60 * kSecond));
    psn_ = Psn(peer_->qp()->attr.sq_psn);
  }

  // Records: kind, length (two bytes), that many bytes.
  void Run(absl::Span<const uint8_t> input) {
    for (size_t n = 0; n < kMaxRecords && input.size() >= 3; ++n) {
      const uint8_t kind = input[0];
      const size_t length = std::min<size_t>(size_t{input[1]} << 8 | input[2], input.size() - 3);
      Give(kind, input.subspan(3, std::min(length, kMaxFrame)));
      input.remove_prefix(3 + length);
      RunUntil([] { return false; }, 1000);
    }
  }

  void End() {
    RunUntil([] { return false; }, 10 * kSecond);
    if (!arp_seen_) ServeAClient();
    peer_.reset();
    rpc_->Shutdown();
    Require(RunUntil([this] { return rpc_->connections() == 0; }, 1000 * kSecond));
    rpc_.reset();
    for (Host* host : {&client_, &server_}) {
      host->manager.reset();
      host->interface.reset();
    }
    client_.wire.reset();
    server_.wire.reset();
    for (Host* host : {&client_, &server_}) {
      Require(rte_mempool_in_use_count(host->worker->packet_pool()) == 0);
    }
  }

 private:
  void Give(uint8_t kind, absl::Span<const uint8_t> bytes) {
    switch (kind & 7) {
      case 0:
        Inject(bytes);
        break;
      case 1:
        Packet({bytes.begin(), bytes.end()});
        break;
      case 2:
        OnConnection(kind, {bytes.begin(), bytes.end()});
        break;
      case 3:
        Message({bytes.begin(), bytes.end()});
        break;
      default:
        RunUntil([] { return false; }, bytes.size() * kSecond / 100);
    }
  }

  void Inject(absl::Span<const uint8_t> bytes) {
    rte_mbuf* frame = rte_pktmbuf_alloc(client_.worker->packet_pool());
    if (frame == nullptr) return;
    std::copy(bytes.begin(), bytes.end(),
              reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, bytes.size())));
    const auto ethernet = wire::ParseEthernet(bytes.data(), bytes.size());
    // Whoever forges ARP on this Ethernet cuts hosts off; that is not to be held against us.
    arp_seen_ |= ethernet && ethernet->ether_type == wire::kEtherTypeArp;
    server_.wire->Arrive(frame);
  }

  // `roce`: from the BTH to the end of the payload and its pad.
  void Packet(const std::vector<uint8_t>& roce) {
    using namespace wire;
    const size_t udp_bytes = kUdpBytes + roce.size() + kIcrcBytes;
    std::vector<uint8_t> frame(kEthernetBytes + kIpv4Bytes + udp_bytes);
    uint8_t* const l3 = frame.data() + kEthernetBytes;
    EmitEthernet({.destination = server_.interface->config().mac,
                  .source = client_.interface->config().mac,
                  .ether_type = kEtherTypeIpv4},
                 frame.data());
    Ipv4Header ip{.total_length = static_cast<uint16_t>(kIpv4Bytes + udp_bytes),
                  .protocol = kIpProtocolUdp,
                  .source = client_.interface->config().addresses[0].address.Ipv4(),
                  .destination = server_.interface->config().addresses[0].address.Ipv4()};
    EmitIpv4(ip, l3);
    EmitUdp({.source_port = 0xC000,
             .destination_port = 4791,
             .length = static_cast<uint16_t>(udp_bytes)},
            l3 + kIpv4Bytes);
    std::copy(roce.begin(), roce.end(), l3 + kIpv4Bytes + kUdpBytes);
    RocePacket packet;
    if (ParseRocePacket(frame.data(), frame.size(), &packet) == ParseResult::kOk) {
      EmitIcrc(ComputeIcrc(packet), frame.data() + packet.icrc_offset);
    }
    Inject(frame);
  }

  // The queue pair number and the PSN that the server waits for; most kinds keep the PSN's
  // distance from zero, or do not count it.
  void OnConnection(uint8_t kind, std::vector<uint8_t> roce) {
    if (roce.size() < wire::kBthBytes) return Packet(roce);
    StoreBe32(&roce[4], peer_->qp()->attr.dest_qp_num);
    const uint32_t given = LoadBe32(&roce[8]);
    const Psn psn = (kind & 0x40) != 0 ? psn_ + given : psn_;
    StoreBe32(&roce[8], (given & 0x80000000) | psn.value());
    if ((kind & 0xC0) == 0) psn_ += 1;
    Packet(roce);
  }

  // One SEND on the connection.
  void Message(std::vector<uint8_t> message) {
    message.resize(std::min<size_t>(message.size(), 1024));
    for (size_t at = 0; at + 16 <= message.size(); at += 4) {
      if (LoadBe32(&message[at]) != kKeyMark) continue;
      const rpcrdma::Segment memory = peer_->SegmentAt(LoadBe32(&message[at + 12]) & 0xFFFF, 0);
      StoreBe32(&message[at], memory.handle);
      StoreBe32(&message[at + 8], static_cast<uint32_t>(memory.offset >> 32));
      StoreBe32(&message[at + 12], static_cast<uint32_t>(memory.offset));
    }
    const auto pad = static_cast<uint8_t>(-message.size() & 3);
    std::vector<uint8_t> roce(wire::kBthBytes);
    wire::EmitBth({.opcode = wire::Opcode::kRcSendOnly,
                   .pad = pad,
                   .dest_qpn = Qpn{peer_->qp()->attr.dest_qp_num},
                   .ack_request = true,
                   .psn = psn_},
                  roce.data());
    psn_ += 1;
    roce.insert(roce.end(), message.begin(), message.end());
    roce.resize(roce.size() + pad);
    Packet(roce);
  }

  void ServeAClient() {
    auto client =
        rpcrdma::Client::Create(client_.worker.get(), client_.manager.get(), Binding()).value();
    bool connected = false, answered = false;
    const auto on_connected = [&](absl::Status status) { connected = status.ok(); };
    const auto on_reply = [&](absl::Status status, const oncrpc::Reply*) {
      answered = status.ok();
    };
    Require(client->Connect(server_.endpoint(), on_connected, nullptr).ok());
    Require(RunUntil([&] { return connected; }, 60 * kSecond));
    Require(client->Call({.procedure = 0}, on_reply).ok());
    Require(RunUntil([&] { return answered; }, 60 * kSecond));
  }

  bool PollBoth() {
    const bool client = client_.worker->Poll(now_ns_);
    const bool server = server_.worker->Poll(now_ns_);
    return client || server;
  }

  template <class Done>
  bool RunUntil(Done done, uint64_t duration_ns) {
    const uint64_t deadline_ns = now_ns_ + duration_ns;
    for (int polls = 0; polls < kMaxPolls; ++polls) {
      const bool busy = PollBoth();
      if (done()) return true;
      if (busy) continue;
      const uint64_t next =
          std::min(client_.worker->NextDeadline(), server_.worker->NextDeadline());
      if (now_ns_ == deadline_ns) return false;
      // Workers are polled when time is up, too: they have no other clock.
      now_ns_ = std::min(deadline_ns, std::max(next, now_ns_ + 1));
    }
    Require(false);  // there is no end to it
    return false;
  }

  uint64_t now_ns_ = kSecond;
  Host client_{1};
  Host server_{2};
  std::unique_ptr<rpcrdma::Server> rpc_;
  std::unique_ptr<rpcrdma::RawPeer> peer_;
  Psn psn_;
  bool arp_seen_ = false;
};

}  // namespace
}  // namespace pollux

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool initialised =
      pollux::engine::InitEal({.huge_pages = pollux::engine::EalOptions::HugePages::kNever}).ok();
  pollux::Require(initialised);
  pollux::Attack attack;
  attack.Run({data, size});
  attack.End();
  return 0;
}
