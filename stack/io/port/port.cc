#include "stack/io/port/port.h"

#include <dirent.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stack/base/byte_order.h"
#include "stack/io/link/mbuf_ring.h"
#include "stack/io/port/driver_use.h"
#include "stack/io/port/interrupt_thread.h"
#include "stack/io/port/packet_filter.h"
#include "stack/io/port/port_driver.h"
#include "stack/io/port/source_port_rss.h"
#include "stack/wire/ethernet.h"

namespace pollux::io {
namespace {

// A pool that stays in cache: one receive ring of 512, bursts in flight, a per-core cache.
constexpr unsigned kOwnPoolFrames = 1023;
// XDP sockets: the driver fills a ring of 2,048 whatever is asked, refills it while as many are
// under way, and copies what is sent into buffers of the same pool.
constexpr unsigned kXdpPoolFrames = 6143;
constexpr unsigned kOwnPoolCache = 64;
constexpr uint16_t kOwnPoolRoom = kMaxMtu + kFramingBytes;
constexpr useconds_t kStartRetryUs = 20'000;
constexpr useconds_t kLinkPollUs = 1000;
constexpr char kMemifSocket[] = "/run/memif.sock";  // DPDK's default for socket=

absl::Status Refused(const std::string& name, const char* step, int error) {
  const int number = error < 0 ? -error : error;
  const std::string text =
      absl::StrCat("port ", name, ": ", step, " failed: ", rte_strerror(number));
  if (number != EPERM) return absl::InternalError(text);
  return absl::PermissionDeniedError(
      absl::StrCat(text, "; run as root or with CAP_NET_RAW and CAP_NET_ADMIN"));
}

// Locally administered, and another for each name (FNV-1a).
MacAddress MacFromName(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name) hash = (hash ^ c) * 16777619u;
  return {0x02,
          0x50,
          static_cast<uint8_t>(hash >> 24),
          static_cast<uint8_t>(hash >> 16),
          static_cast<uint8_t>(hash >> 8),
          static_cast<uint8_t>(hash)};
}

uint16_t QueuesWanted(const PortOptions& options) {
  return static_cast<uint16_t>(std::max<size_t>(options.pools.size(), 1));
}

// Bytes after the headroom; nothing when a pool is missing.
std::optional<uint16_t> SmallestRoom(const std::vector<rte_mempool*>& pools) {
  std::optional<uint16_t> least;
  for (rte_mempool* pool : pools) {
    if (pool == nullptr) return std::nullopt;
    const uint16_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
    least = std::min(least.value_or(room), room);
  }
  return least;
}

// Whether the DPDK port had no owner and is this process's now, until it is closed.
bool TakeOwnership(uint16_t id) {
  static const uint64_t process = [] {
    uint64_t number = RTE_ETH_DEV_NO_OWNER;
    (void)rte_eth_dev_owner_new(&number);
    return number;
  }();
  const rte_eth_dev_owner owner = {.id = process, .name = "pollux"};
  return rte_eth_dev_owner_set(id, &owner) == 0;
}

// What to do about a device that DPDK refuses.
const char* ProbeHint(Driver driver) {
  if (driver == Driver::kOther) {
    return "; ports are named after their driver: net_tap0, net_af_packet0, net_memif0 or a PCI "
           "address, with arguments that the driver knows";
  }
  if (geteuid() != 0)
    return "; this user may lack the right (CAP_NET_RAW, CAP_NET_ADMIN): try root";
  return "";
}

bool IsMemifClient(const Devargs& devargs) {
  return devargs.driver() == Driver::kMemif && devargs.Get("role").value_or("client") == "client";
}

// The file descriptors of the process's sockets in this domain.
std::vector<int> SocketsOf(int wanted_domain) {
  std::vector<int> found;
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    int fd, domain;
    socklen_t length = sizeof domain;
    if (absl::SimpleAtoi(entry->d_name, &fd) &&
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == wanted_domain) {
      found.push_back(fd);
    }
  }
  closedir(directory);
  std::ranges::sort(found);
  return found;
}

// The packet sockets bound to the interface.
std::vector<int> PacketSockets(unsigned interface_index) {
  std::vector<int> found = SocketsOf(AF_PACKET);
  std::erase_if(found, [interface_index](int fd) {
    sockaddr_ll at = {};
    socklen_t length = sizeof at;
    return getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0 ||
           at.sll_ifindex != static_cast<int>(interface_index);
  });
  return found;
}

// Frames that wait in a queueing discipline are charged to their packet socket. If its buffer had
// no room for all of the ring, the driver would not notice, and the rest of the ring would wait for
// the next Send(). The kernel doubles the size, for what it keeps with each frame.
void SetSendBuffers(const Devargs& devargs, const std::vector<int>& packet_sockets) {
  const auto ring_bytes = static_cast<int>(devargs.GetNumber("framesz").value_or(2048) *
                                           devargs.GetNumber("framecnt").value_or(512));
  for (const int fd : packet_sockets) {
    // In a user namespace only up to the host's net.core.wmem_max.
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &ring_bytes, sizeof ring_bytes) != 0) {
      (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &ring_bytes, sizeof ring_bytes);
    }
  }
}

// Whether `fd` is a socket connected to `path`, whether or not the server has accepted it yet.
bool IsConnectedTo(const std::string& path, int fd) {
  sockaddr_un peer = {};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  const bool is_abstract = peer.sun_path[0] == 0;
  const char* name = peer.sun_path + is_abstract;
  return path == std::string_view(name, strnlen(name, sizeof peer.sun_path - is_abstract));
}

}  // namespace

struct Port::Rings {
  std::vector<rte_ring*> there, back;  // one of each for each queue
  ~Rings() {
    Clear();
    for (const auto& way : {there, back}) {
      for (rte_ring* ring : way) rte_ring_free(ring);
    }
  }
  void Clear() {
    for (const auto& way : {there, back}) std::ranges::for_each(way, FreeFrames);
  }
};

absl::StatusOr<std::unique_ptr<Port>> Port::Open(const PortOptions& options) {
  absl::StatusOr<Devargs> devargs = Devargs::Parse(options.devargs);
  if (!devargs.ok()) return devargs.status();
  AddDriverDefaults(&*devargs, SmallestRoom(options.pools).value_or(kOwnPoolRoom),
                    QueuesWanted(options));
  if (absl::Status status = CheckMachine(*devargs); !status.ok()) return status;

  std::unique_ptr<Port> port(new Port(devargs->name()));
  absl::Status status;
  const auto bring_up = [&] {
    status = port->Probe(*devargs);
    if (status.ok()) status = port->Configure(*devargs, options, DriverDataRoom(*devargs));
    if (status.ok()) status = port->Start(*devargs, options.start_timeout_ms);
    if (status.ok() && port->Scatters()) {
      port->Stop();
      status = port->Configure(*devargs, options, {.least = kNicLargeRoom, .most = UINT16_MAX});
      if (status.ok()) status = port->Start(*devargs, options.start_timeout_ms);
    }
    if (status.ok() && options.promiscuous) port->ReceiveAllAddresses(*devargs);
  };
  if (devargs->driver() == Driver::kMemif && !IsMemifClient(*devargs)) {
    // DPDK's memif server listens once it is probed, but refuses clients until it is started. The
    // interrupt thread accepts them: while it runs this, they wait in the backlog.
    RunOnInterruptThread(bring_up);
  } else {
    bring_up();
  }
  if (!status.ok()) return status;
  return port;
}

absl::Status Port::Probe(const Devargs& devargs) {
  uint16_t id;
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &id) == 0) {
    // EAL has probed the PCI devices that InitEal() was given.
    if (devargs.driver() == Driver::kPci && TakeOwnership(id)) {
      Adopt(id);
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(
        absl::StrCat("port ", name_, " is open already in this process; give another name"));
  }
  const bool on_packet_sockets = devargs.driver() == Driver::kAfPacket;
  const unsigned index = if_nametoindex(devargs.Get("iface").value_or("").c_str());
  const std::vector<int> before = on_packet_sockets ? PacketSockets(index) : std::vector<int>();
  const int error = ProbeDevice(devargs);
  if (on_packet_sockets) {
    std::ranges::set_difference(PacketSockets(index), before, std::back_inserter(packet_sockets_));
    if (devargs.Get("qdisc_bypass") == "0") SetSendBuffers(devargs, packet_sockets_);
  }
  if (error == 0 && rte_eth_dev_get_port_by_name(name_.c_str(), &id) == 0) {
    (void)TakeOwnership(id);
    Adopt(id);
    return absl::OkStatus();
  }
  if (devargs.driver() == Driver::kPci) {
    return absl::NotFoundError(absl::StrCat(
        "port ", name_,
        ": DPDK finds no usable network device at this PCI address; run `pollux doctor "
        "--port ",
        name_, "` to find the cause"));
  }
  if (devargs.driver() == Driver::kOther && error == 0) {
    return absl::NotFoundError(absl::StrCat("port ", name_, " is not a network device"));
  }
  return absl::InternalError(
      absl::StrCat("port ", devargs.ToString(), ": DPDK cannot open this device (",
                   rte_strerror(error < 0 ? -error : ENODEV), ")", ProbeHint(devargs.driver())));
}

void Port::Adopt(uint16_t id) {
  port_id_ = id;
  rte_eth_dev_info info;
  if (rte_eth_dev_info_get(id, &info) != 0) return;
  device_ = info.device;
  if (DriverOf(name_) == Driver::kPci) removal_ = std::make_unique<RemovalWatch>(name_);
}

absl::Status Port::TakePools(const Devargs& devargs, const PortOptions& options,
                             const DataRoom& allowed, uint16_t queues, int socket) {
  const uint16_t offered = SmallestRoom(options.pools).value_or(0);
  if (offered >= allowed.least && offered <= allowed.most) {
    pools_.assign(options.pools.begin(), options.pools.begin() + queues);
  } else {
    const uint32_t room =
        std::clamp(kOwnPoolRoom, allowed.least, allowed.most) + RTE_PKTMBUF_HEADROOM;
    const unsigned frames = devargs.driver() == Driver::kAfXdp ? kXdpPoolFrames : kOwnPoolFrames;
    pools_.clear();
    for (uint16_t i = 0; i < queues; ++i) {
      rte_mempool* pool = rte_pktmbuf_pool_create(
          absl::StrCat("plx_port_", port_id_, "_", own_pools_.size()).c_str(), frames,
          kOwnPoolCache, 0, static_cast<uint16_t>(std::min(room, 65535u)), socket);
      if (pool == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("port ", name_, ": no memory for ", frames, " buffers of ", room,
                         " bytes (", rte_strerror(rte_errno), "); give EAL more (-m)"));
      }
      own_pools_.push_back(pool);
      pools_.push_back(pool);
    }
  }
  data_room_ = SmallestRoom(pools_).value();
  return absl::OkStatus();
}

absl::Status Port::Configure(const Devargs& devargs, const PortOptions& options,
                             const DataRoom& allowed) {
  rte_eth_dev_info info;
  if (int error = rte_eth_dev_info_get(port_id_, &info); error != 0) {
    return Refused(name_, "reading its properties", error);
  }
  const uint16_t queues = std::min({QueuesWanted(options), DriverQueues(devargs.driver()),
                                    std::max<uint16_t>(info.max_rx_queues, 1),
                                    std::max<uint16_t>(info.max_tx_queues, 1)});
  const int socket = rte_eth_dev_socket_id(port_id_);
  if (absl::Status status = TakePools(devargs, options, allowed, queues, socket); !status.ok()) {
    return status;
  }

  rte_eth_conf config = {};
  config.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  constexpr uint64_t kFlows = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
  if (queues > 1 && (info.flow_type_rss_offloads & kFlows) != 0) {
    rss_key_ = RssKey(info.hash_key_size);
    config.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    config.rx_adv_conf.rss_conf = {.rss_key = rss_key_.empty() ? nullptr : rss_key_.data(),
                                   .rss_key_len = static_cast<uint8_t>(rss_key_.size()),
                                   .rss_hf = info.flow_type_rss_offloads & kFlows};
    if (!rss_key_.empty()) rss_table_size_ = info.reta_size;
  }
  if (int error = rte_eth_dev_configure(port_id_, queues, queues, &config); error != 0) {
    return Refused(name_, "configuring its queues", error);
  }
  uint16_t reported = 0;
  (void)rte_eth_dev_get_mtu(port_id_, &reported);
  // Virtual drivers refuse an MTU that they carry; a real NIC drops what is longer than it is told.
  if (devargs.driver() == Driver::kPci) {
    const uint16_t wanted = options.mtu != 0 ? options.mtu : reported;
    const uint16_t possible = std::min(
        {kMaxMtu, static_cast<uint16_t>(data_room_ - kNicFramingBytes), info.max_mtu, wanted});
    if (possible != reported && rte_eth_dev_set_mtu(port_id_, possible) == 0) reported = possible;
  }
  if (absl::Status status = SetUpQueues(devargs, socket); !status.ok()) return status;

  mtu_ = DriverMtu(devargs, data_room_, reported);
  if (options.mtu != 0) mtu_ = std::min(mtu_, options.mtu);
  LearnMac(devargs, options);
  return absl::OkStatus();
}

absl::Status Port::SetUpQueues(const Devargs& devargs, int socket) {
  Descriptors descriptors = DriverDescriptors(devargs.driver());
  (void)rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &descriptors.rx, &descriptors.tx);
  const auto queues = static_cast<uint16_t>(pools_.size());
  for (uint16_t i = 0; i < queues; ++i) {
    int error = rte_eth_rx_queue_setup(port_id_, i, descriptors.rx, static_cast<unsigned>(socket),
                                       nullptr, pools_[i]);
    if (error != 0) return Refused(name_, "setting up a receive queue", error);
    error =
        rte_eth_tx_queue_setup(port_id_, i, descriptors.tx, static_cast<unsigned>(socket), nullptr);
    if (error != 0) return Refused(name_, "setting up a transmit queue", error);
    queues_.push_back(std::make_unique<Queue>(this, port_id_, i));
  }
  return absl::OkStatus();
}

void Port::LearnMac(const Devargs& devargs, const PortOptions& options) {
  rte_ether_addr address = {};
  (void)rte_eth_macaddr_get(port_id_, &address);
  std::copy(std::begin(address.addr_bytes), std::end(address.addr_bytes), mac_.begin());
  if (options.mac) {
    mac_ = *options.mac;
    std::copy(mac_.begin(), mac_.end(), std::begin(address.addr_bytes));
    // Only a NIC filters by it; a packet socket would rename the kernel's own interface.
    if (devargs.driver() == Driver::kPci) {
      (void)rte_eth_dev_default_mac_addr_set(port_id_, &address);
    }
  } else if (mac_ == MacAddress{}) {
    mac_ = MacFromName(name_);
  } else if (devargs.driver() == Driver::kTap) {
    // The driver's address is that of the kernel's side of the tap.
    mac_[0] |= 0x02;
    mac_[5] ^= 0x01;
  }
}

// A refused client does not retry: each refusal can crash the server's DPDK driver, and so can
// closing a connection that it has not accepted. So a client whose server has not answered waits.
int Port::StartMemifClient(const std::string& path, uint32_t timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  const std::vector<int> before = SocketsOf(AF_UNIX);
  int error = rte_eth_dev_start(port_id_);
  while (error != 0 && Clock::now() < deadline) {
    usleep(kStartRetryUs);
    error = rte_eth_dev_start(port_id_);
  }
  if (error != 0) return error;
  running_ = true;
  const auto is_up = [this] {
    rte_eth_link link;
    return rte_eth_link_get_nowait(port_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  };
  std::vector<int> ours;
  std::ranges::set_difference(SocketsOf(AF_UNIX), before, std::back_inserter(ours));
  // DPDK's interrupt thread closes the socket when the server refuses the connection.
  const auto is_open = [&ours, &path](int fd) { return IsConnectedTo(path, fd); };
  while (!is_up() && std::ranges::any_of(ours, is_open)) {
    if (Clock::now() >= deadline) return 0;
    usleep(kLinkPollUs);
  }
  return is_up() ? 0 : -ECONNREFUSED;
}

absl::Status Port::Start(const Devargs& devargs, uint32_t timeout_ms) {
  const bool is_memif_client = IsMemifClient(devargs);
  const std::string path = devargs.Get("socket").value_or(kMemifSocket);
  const int error = is_memif_client ? StartMemifClient(path, timeout_ms)
                                    : StartDevice(devargs.driver(), port_id_);
  if (error != 0 && is_memif_client) {
    return absl::UnavailableError(
        error == -ECONNREFUSED
            ? absl::StrCat("port ", name_, ": the memif server on ", path,
                           " refuses the connection; it has another client, another id= or another "
                           "secret=, or it is still starting")
            : absl::StrCat("port ", name_, ": no memif server listens on ", path, " after ",
                           timeout_ms, " ms; start the side with role=server first"));
  }
  if (error != 0) return Refused(name_, "starting", error);
  running_ = true;
  const bool is_memif = devargs.driver() == Driver::kMemif;
  if (is_memif) DriverUse::Prepare();
  for (const auto& queue : queues_) {
    queue->state_ = is_memif ? Queue::State::kGuarded : Queue::State::kRunning;
  }
  // Drivers write a table of their own when they start.
  std::vector<rte_eth_rss_reta_entry64> table = RssTable(rss_table_size_, queues());
  sorts_by_qpn_ =
      !table.empty() && rte_eth_dev_rss_reta_update(port_id_, table.data(), rss_table_size_) == 0;
  interface_ = devargs.Get("iface").value_or("");
  interface_index_ = if_nametoindex(interface_.c_str());
  if (interface_index_ != 0) interface_fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  kernel_link_ = devargs.driver() == Driver::kAfPacket || devargs.driver() == Driver::kAfXdp;
  if (kernel_link_ && interface_fd_ < 0) return Refused(name_, "opening a socket", -errno);
  return absl::OkStatus();
}

// Failure is harmless: such drivers do not filter.
void Port::ReceiveAllAddresses(const Devargs& devargs) {
  if (!NeedsInterface(devargs.driver())) {
    (void)rte_eth_promiscuous_enable(port_id_);
    return;
  }
  // DPDK would set a flag of the interface, which would remain when the process ends. This socket
  // receives nothing: it has no protocol.
  promiscuous_fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  packet_mreq membership = {};
  membership.mr_ifindex = static_cast<int>(interface_index_);
  membership.mr_type = PACKET_MR_PROMISC;
  (void)setsockopt(promiscuous_fd_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership,
                   sizeof membership);
}

absl::StatusOr<Port::Pair> Port::CreateRingPair(const std::string& name,
                                                const std::vector<rte_mempool*>& pools_a,
                                                const std::vector<rte_mempool*>& pools_b) {
  auto rings = std::make_shared<Rings>();
  const int socket = static_cast<int>(rte_socket_id());
  const unsigned flags = RING_F_SP_ENQ | RING_F_SC_DEQ;
  const size_t queues = std::min(pools_a.size(), pools_b.size());
  for (auto [way, mark] : {std::pair(&rings->there, "_a"), std::pair(&rings->back, "_b")}) {
    for (size_t i = 0; i < queues; ++i) {
      rte_ring* ring =
          rte_ring_create(absl::StrCat(name, mark, i).c_str(), kRingFrames, socket, flags);
      if (ring == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("ring pair ", name, ": ", 2 * queues, " rings of ", kRingFrames,
                         " frames cannot be created: ", rte_strerror(rte_errno)));
      }
      way->push_back(ring);
    }
  }
  absl::StatusOr<std::unique_ptr<Port>> a =
      OfRings(absl::StrCat(name, "0"), rings, rings->there, rings->back, pools_a);
  if (!a.ok()) return a.status();
  absl::StatusOr<std::unique_ptr<Port>> b =
      OfRings(absl::StrCat(name, "1"), rings, rings->back, rings->there, pools_b);
  if (!b.ok()) return b.status();
  (*a)->mtu_ = (*b)->mtu_ = std::min((*a)->mtu_, (*b)->mtu_);
  return Pair(*std::move(a), *std::move(b));
}

absl::StatusOr<std::unique_ptr<Port>> Port::OfRings(const std::string& name,
                                                    std::shared_ptr<Rings> rings,
                                                    std::vector<rte_ring*> rx,
                                                    std::vector<rte_ring*> tx,
                                                    const std::vector<rte_mempool*>& pools) {
  std::unique_ptr<Port> port(new Port(name));
  const int id = rte_eth_from_rings(name.c_str(), rx.data(), static_cast<unsigned>(rx.size()),
                                    tx.data(), static_cast<unsigned>(tx.size()), rte_socket_id());
  if (id < 0) return Refused(name, "making a device of rings", rte_errno);
  port->port_id_ = static_cast<uint16_t>(id);
  port->rings_ = std::move(rings);
  rte_eth_dev_info info;
  if (rte_eth_dev_info_get(port->port_id_, &info) == 0) port->device_ = info.device;
  PortOptions options;
  options.pools.assign(pools.begin(), pools.begin() + static_cast<ptrdiff_t>(rx.size()));
  const absl::StatusOr<Devargs> devargs = Devargs::Parse("net_ring");
  if (absl::Status status = port->Configure(*devargs, options, DriverDataRoom(*devargs));
      !status.ok()) {
    return status;
  }
  if (absl::Status status = port->Start(*devargs, 0); !status.ok()) return status;
  return port;
}

// A NIC that divides the largest frames among several buffers, since it does not use all of one.
bool Port::Scatters() const {
  rte_eth_rxq_info info = {};
  return rte_eth_rx_queue_info_get(port_id_, 0, &info) == 0 && info.scattered_rx != 0;
}

Port::~Port() { Close(); }

void Port::Stop() {
  if (running_) (void)rte_eth_dev_stop(port_id_);
  running_ = false;
  queues_.clear();
}

void Port::Close() {
  if (port_id_ == kNoPort) return;
  (void)PacketsDropped();
  packet_sockets_.clear();  // before their numbers are others'
  const auto stop_and_close = [this] {
    if (running_) (void)rte_eth_dev_stop(port_id_);
    (void)rte_eth_dev_close(port_id_);
  };
  if (DriverOf(name_) == Driver::kMemif) {
    // Its callback takes the same connection down, without a lock, when the peer leaves.
    RunOnInterruptThread(stop_and_close);
  } else {
    stop_and_close();
  }
  running_ = false;
  for (const auto& queue : queues_) queue->state_ = Queue::State::kStopped;
  removal_.reset();
  if (device_ != nullptr) (void)rte_dev_remove(device_);
  device_ = nullptr;
  port_id_ = kNoPort;
  if (rings_ != nullptr) {
    // Both rings: neither side's pool may be missing a frame once both ports are closed.
    rings_->Clear();
    rings_.reset();
  }
  std::ranges::for_each(own_pools_, rte_mempool_free);
  own_pools_.clear();
  for (int* fd : {&interface_fd_, &promiscuous_fd_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

uint16_t Port::Queue::Receive(rte_mbuf** frames, uint16_t capacity, uint64_t /*now_ns*/) {
  if (state_ != State::kRunning) [[unlikely]]
    return ReceiveOtherwise(frames, capacity);
  const struct rte_eth_fp_ops& ops = rte_eth_fp_ops[port_id_];
  // Without callbacks this is all that rte_eth_rx_burst() does; as a tail call it saves no
  // registers, which counts in turns without work.
  if (ops.rxq.clbk[index_] != nullptr) [[unlikely]]
    return ReceiveWithCallbacks(frames, capacity);
  return ops.rx_pkt_burst(ops.rxq.data[index_], frames, capacity);
}

uint16_t Port::Queue::Send(rte_mbuf** frames, uint16_t count, uint64_t /*now_ns*/) {
  if (state_ != State::kRunning) [[unlikely]]
    return SendOtherwise(frames, count);
  if (lowered_mtu_ != 0) [[unlikely]]
    return SendWhatIsCarried(frames, count);
  // As in Receive().
  const struct rte_eth_fp_ops& ops = rte_eth_fp_ops[port_id_];
  if (ops.txq.clbk[index_] != nullptr) [[unlikely]]
    return SendWithCallbacks(frames, count);
  return ops.tx_pkt_burst(ops.txq.data[index_], frames, count);
}

// Inlined, these would make Receive() and Send() save registers in every call.
[[gnu::noinline]] uint16_t Port::Queue::ReceiveWithCallbacks(rte_mbuf** frames, uint16_t capacity) {
  return rte_eth_rx_burst(port_id_, index_, frames, capacity);
}

[[gnu::noinline]] uint16_t Port::Queue::SendWithCallbacks(rte_mbuf** frames, uint16_t count) {
  return rte_eth_tx_burst(port_id_, index_, frames, count);
}

[[gnu::noinline]] uint16_t Port::Queue::ReceiveOtherwise(rte_mbuf** frames, uint16_t capacity) {
  if (state_ == State::kStopped) return 0;
  const DriverUse use(port_id_);
  return rte_eth_rx_burst(port_id_, index_, frames, capacity);
}

// A memif's MTU is never lowered: no interface of the kernel is behind it.
[[gnu::noinline]] uint16_t Port::Queue::SendOtherwise(rte_mbuf** frames, uint16_t count) {
  if (state_ == State::kStopped) return 0;
  const DriverUse use(port_id_);
  return rte_eth_tx_burst(port_id_, index_, frames, count);
}

// As the kernel counts: a tag does not count.
bool Port::Queue::Carries(const rte_mbuf& frame) const {
  const auto* bytes = rte_pktmbuf_mtod(&frame, const uint8_t*);
  const bool tagged = LoadBe16(bytes + wire::ethernet::kType) == wire::kEtherTypeVlan;
  return frame.pkt_len <= lowered_mtu_ + wire::kEthernetBytes + (tagged ? wire::kVlanTagBytes : 0);
}

[[gnu::noinline]] uint16_t Port::Queue::SendWhatIsCarried(rte_mbuf** frames, uint16_t count) {
  uint16_t done = 0;
  while (done < count) {
    uint16_t end = done;
    while (end < count && Carries(*frames[end])) ++end;
    if (end > done) {
      const auto run = static_cast<uint16_t>(end - done);
      done = static_cast<uint16_t>(done + rte_eth_tx_burst(port_id_, index_, frames + done, run));
      if (done < end) break;
    }
    if (end == count) break;
    tx_over_mtu_.store(tx_over_mtu_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    rte_pktmbuf_free(frames[end]);
    done = static_cast<uint16_t>(end + 1);
  }
  return done;
}

LinkState Port::Queue::FollowLink() {
  const LinkState link = port_->GetLink();
  lowered_mtu_ = link.mtu < port_->mtu_ ? link.mtu : uint16_t{0};
  return link;
}

absl::Status Port::FilterPackets(const QpnLayout& layout) {
  if (packet_sockets_.empty()) {
    return absl::InternalError(absl::StrCat("port ", name_,
                                            ": its packet sockets are not found in "
                                            "/proc/self/fd"));
  }
  const std::vector<sock_filter> filter = RocePacketFilter(layout);
  for (const int fd : packet_sockets_) {
    if (!AttachPacketFilter(fd, filter)) return Refused(name_, "attaching a filter", errno);
    // Otherwise each process would see what the others send, on lo even twice.
    const int on = 1;
    (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  }
  return absl::OkStatus();
}

// By its index: names change and are given anew.
std::optional<std::string> Port::InterfaceName() const {
  if (interface_fd_ < 0) return interface_;
  ifreq request = {};
  request.ifr_ifindex = static_cast<int>(interface_index_);
  if (ioctl(interface_fd_, SIOCGIFNAME, &request) == 0) return request.ifr_name;
  return errno == ENODEV ? std::nullopt : std::optional(interface_);
}

absl::Status Port::CheckInterface() const {
  if (removal_ != nullptr && removal_->removed()) {
    return absl::UnavailableError(absl::StrCat("port ", name_, ": the device is gone"));
  }
  if (InterfaceName()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("port ", name_, ": interface \"", interface_, "\" is gone"));
}

LinkState Port::GetLink() const {
  rte_eth_link link;
  const std::optional<std::string> interface = InterfaceName();
  if (!interface || (removal_ != nullptr && removal_->removed()))
    return {.up = false, .gone = true};
  if (!running_ || rte_eth_link_get_nowait(port_id_, &link) != 0) return {.up = false};
  if (kernel_link_) {
    LinkState state = KernelLink(interface_fd_, *interface);
    state.gone = false;  // it was there: renamed meanwhile, or to be found gone next time
    return state;
  }
  const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {.up = link.link_status == RTE_ETH_LINK_UP, .speed_mbps = known ? link.link_speed : 0};
}

uint64_t Port::PacketsDropped() const {
  for (const int fd : packet_sockets_) {
    tpacket_stats since = {};
    socklen_t length = sizeof since;
    if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &since, &length) != 0) continue;
    packets_dropped_.fetch_add(since.tp_drops, std::memory_order_relaxed);
  }
  return packets_dropped_.load(std::memory_order_relaxed);
}

PortStatistics Port::Statistics() const {
  rte_eth_stats stats = {};
  if (port_id_ != kNoPort) (void)rte_eth_stats_get(port_id_, &stats);
  uint64_t tx_over_mtu = 0;
  for (const auto& queue : queues_) {
    tx_over_mtu += queue->tx_over_mtu_.load(std::memory_order_relaxed);
  }
  return {.rx_frames = stats.ipackets,
          .tx_frames = stats.opackets,
          .rx_bytes = stats.ibytes,
          .tx_bytes = stats.obytes,
          .rx_missed = stats.imissed + PacketsDropped(),
          .rx_no_buffer = stats.rx_nombuf,
          .rx_errors = stats.ierrors,
          .tx_errors = stats.oerrors,
          .tx_over_mtu = tx_over_mtu};
}

}  // namespace pollux::io
