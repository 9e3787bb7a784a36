#include "stack/io/port/port_driver.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace pollux::io {
namespace {

// The largest frame, and an odd number of cache lines: with a power of two the headers of all
// buffers would lie in the same few places of the cache.
constexpr uint32_t kMemifBuffer = 4416;
static_assert(kMemifBuffer >= kMaxMtu + kFramingBytes && kMemifBuffer % 128 == 64);
// A power of two: 512. Every buffer of a ring is used in turn, so that four times as many do not
// stay in the cache; a sender that finds the ring full waits.
constexpr uint32_t kMemifRingBits = 9;
// The packet socket's slot: 4,352 bytes, of which 66 stand before the frame (the kernel's
// TPACKET_V2 header, aligned). Seventeen pages hold sixteen: the driver wants slots contiguous.
constexpr uint32_t kAfPacketSlot = 4352;
constexpr uint32_t kAfPacketBlock = 69632;
constexpr uint32_t kAfPacketSlots = 512;
constexpr uint32_t kAfPacketSlotHeader = 66;
// What the driver takes for that header when it compares a slot with a receive buffer.
constexpr uint32_t kAfPacketDriverHeader = TPACKET2_HDRLEN - sizeof(sockaddr_ll);
constexpr uint16_t kAfXdpMtu = 3542;
// The kernel wants a whole buffer, with what DPDK keeps before it, in one page.
constexpr uint16_t kAfXdpDataRoom = 3584;
constexpr uint16_t kEthernetMtu = 1500;

uint32_t Less(uint32_t value, uint32_t part) { return value > part ? value - part : 0; }

// An ioctl on the network interface `name`; false when it fails.
bool InterfaceRequest(const std::string& name, unsigned long request, ifreq* out) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  absl::Cleanup close_fd = [fd] { close(fd); };
  *out = {};
  std::strncpy(out->ifr_name, name.c_str(), IFNAMSIZ - 1);
  return ioctl(fd, request, out) == 0;
}

// Whether this process has CAP_NET_ADMIN for the interface. Requests to the kernel to resolve
// neighbours need it, too. SIOCSIFMETRIC changes nothing: it fails with EPERM without the
// capability, and otherwise with EOPNOTSUPP.
bool MayConfigure(const std::string& name) {
  ifreq request;
  return InterfaceRequest(name, SIOCSIFMETRIC, &request) || errno != EPERM;
}

absl::Status CheckInterface(const Devargs& devargs) {
  const std::string iface = devargs.Get("iface").value_or("");
  if (iface.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("port ", devargs.name(), " needs iface=NAME, the interface to take"));
  }
  ifreq request;
  if (iface.size() >= IFNAMSIZ || !InterfaceRequest(iface, SIOCGIFFLAGS, &request)) {
    return absl::NotFoundError(absl::StrCat("port ", devargs.name(), ": interface \"", iface,
                                            "\" does not exist; `ip link` lists those that do"));
  }
  if ((request.ifr_flags & IFF_UP) == 0) {
    return absl::FailedPreconditionError(absl::StrCat("port ", devargs.name(), ": interface \"",
                                                      iface, "\" is down; `ip link set ", iface,
                                                      " up` and try again"));
  }
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat("port ", devargs.name(), ": raw sockets on \"",
                                                    iface, "\" are refused (", std::strerror(errno),
                                                    "); run as root or with CAP_NET_RAW and "
                                                    "CAP_NET_ADMIN"));
  }
  close(fd);
  if (!MayConfigure(iface)) {
    return absl::PermissionDeniedError(
        absl::StrCat("port ", devargs.name(), ": this process may not configure \"", iface,
                     "\"; run as root or with CAP_NET_RAW and CAP_NET_ADMIN"));
  }
  return absl::OkStatus();
}

absl::Status CheckTap(const Devargs& devargs) {
  if (access("/dev/net/tun", R_OK | W_OK) != 0) {
    const int error = errno;
    const std::string what = absl::StrCat(
        "port ", devargs.name(), ": /dev/net/tun cannot be used (", std::strerror(error), "); ");
    if (error == ENOENT) {
      return absl::NotFoundError(absl::StrCat(what, "this kernel or container has no tun device"));
    }
    return absl::PermissionDeniedError(
        absl::StrCat(what, "run as root or with CAP_NET_ADMIN and access to it"));
  }
  const std::string iface = devargs.Get("iface").value_or("");
  if (iface.size() >= IFNAMSIZ) {
    return absl::InvalidArgumentError(absl::StrCat("port ", devargs.name(), ": interface name \"",
                                                   iface, "\" is longer than ", IFNAMSIZ - 1,
                                                   " characters"));
  }
  if (!iface.empty() && if_nametoindex(iface.c_str()) != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("port ", devargs.name(), ": interface \"", iface,
                     "\" exists already; give another iface=NAME, or end the program that has it"));
  }
  return absl::OkStatus();
}

absl::Status CheckMemif(const Devargs& devargs) {
  const std::string role = devargs.Get("role").value_or("client");
  if (role != "server" && role != "client") {
    return absl::InvalidArgumentError(absl::StrCat("port ", devargs.name(), ": role=", role,
                                                   " is unknown; give role=server or role=client"));
  }
  const std::string path = devargs.Get("socket").value_or("");
  if (path.empty() || devargs.Get("socket-abstract") != "no") return absl::OkStatus();
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("port ", devargs.name(), ": socket=", path,
                                                   " is longer than ", sizeof address.sun_path - 1,
                                                   " bytes"));
  }
  const std::string directory = path.substr(0, path.find_last_of('/'));
  if (directory.size() < path.size() && !directory.empty() &&
      access(directory.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("port ", devargs.name(), ": socket=", path,
                                            ": directory ", directory, ": ", strerror(errno)));
  }
  if (role == "client") return absl::OkStatus();
  struct stat file;
  if (lstat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "port ", devargs.name(), ": ", path, " exists and is not a socket; give another socket="));
  }
  // A socket of another type than memif's: the kernel tells whether somebody listens without
  // connecting, which, followed by a disconnect, can bring that server's driver down.
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::InternalError(std::strerror(errno));
  absl::Cleanup close_fd = [fd] { close(fd); };
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int error =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  if (error == 0 || error == EPROTOTYPE) {
    return absl::AlreadyExistsError(absl::StrCat("port ", devargs.name(),
                                                 ": another server listens on ", path,
                                                 "; end it or give another socket="));
  }
  if (error == ECONNREFUSED) unlink(path.c_str());
  return absl::OkStatus();
}

// The fan-out group of the port that this thread probes.
struct FanoutGroup {
  std::optional<uint16_t> number;  // once its first socket has joined
};
thread_local FanoutGroup* probed_group = nullptr;

// Whether this thread starts a port on a kernel's interface.
thread_local bool starts_interface = false;

}  // namespace

bool NeedsInterface(Driver driver) {
  return driver == Driver::kAfPacket || driver == Driver::kAfXdp;
}

int ProbeDevice(const Devargs& devargs) {
  FanoutGroup group;
  probed_group = &group;
  const int error = rte_dev_probe(devargs.ToString().c_str());
  probed_group = nullptr;
  return error;
}

int StartDevice(Driver driver, uint16_t port_id) {
  starts_interface = NeedsInterface(driver);
  const int error = rte_eth_dev_start(port_id);
  starts_interface = false;
  return error;
}

void AddDriverDefaults(Devargs* devargs, uint16_t data_room, uint16_t queues) {
  switch (devargs->driver()) {
    case Driver::kMemif:
      if (devargs->Get("socket")) devargs->SetDefault("socket-abstract", "no");
      devargs->SetDefault("rsize", absl::StrCat(kMemifRingBits));
      devargs->SetDefault("bsize", absl::StrCat(kMemifBuffer));
      return;
    case Driver::kAfPacket:
      if (queues > 1) devargs->SetDefault("qpairs", absl::StrCat(queues));
      // Slots, blocks and counts belong together: all are the user's or none.
      if (devargs->Get("framesz") || devargs->Get("blocksz") || devargs->Get("framecnt")) return;
      if (data_room + kAfPacketDriverHeader < kAfPacketSlot) return;
      devargs->SetDefault("framesz", absl::StrCat(kAfPacketSlot));
      devargs->SetDefault("blocksz", absl::StrCat(kAfPacketBlock));
      devargs->SetDefault("framecnt", absl::StrCat(kAfPacketSlots));
      return;
    default:
      return;
  }
}

absl::Status CheckMachine(const Devargs& devargs) {
  switch (devargs.driver()) {
    case Driver::kAfPacket:
    case Driver::kAfXdp:
      return CheckInterface(devargs);
    case Driver::kTap:
      return CheckTap(devargs);
    case Driver::kMemif:
      return CheckMemif(devargs);
    default:
      return absl::OkStatus();
  }
}

DataRoom DriverDataRoom(const Devargs& devargs) {
  DataRoom room = {.least = kFramingBytes + kEthernetMtu, .most = UINT16_MAX};
  if (devargs.driver() == Driver::kAfPacket) {
    const uint32_t slot = devargs.GetNumber("framesz").value_or(2048);
    room.least =
        static_cast<uint16_t>(std::min<uint32_t>(Less(slot, kAfPacketDriverHeader), UINT16_MAX));
  } else if (devargs.driver() == Driver::kAfXdp) {
    room.most = kAfXdpDataRoom;
  }
  return room;
}

uint16_t DriverMtu(const Devargs& devargs, uint16_t data_room, uint16_t reported) {
  uint32_t mtu = reported;
  ifreq request;
  if (NeedsInterface(devargs.driver()) &&
      InterfaceRequest(devargs.Get("iface").value_or(""), SIOCGIFMTU, &request)) {
    mtu = static_cast<uint32_t>(std::max(request.ifr_mtu, 0));
  }
  switch (devargs.driver()) {
    case Driver::kRing:
      mtu = kMaxMtu;
      break;
    case Driver::kMemif:
      mtu = Less(devargs.GetNumber("bsize").value_or(kMemifBuffer), kFramingBytes);
      break;
    case Driver::kAfPacket:
      mtu = std::min(mtu, Less(devargs.GetNumber("framesz").value_or(2048),
                               kAfPacketSlotHeader + kFramingBytes));
      break;
    case Driver::kAfXdp:
      mtu = std::min<uint32_t>(mtu, kAfXdpMtu);
      break;
    case Driver::kTap:
      mtu = kEthernetMtu;
      break;
    case Driver::kPci:
    case Driver::kOther:
      break;
  }
  return static_cast<uint16_t>(
      std::min({mtu, Less(data_room, kFramingBytes), static_cast<uint32_t>(kMaxMtu)}));
}

uint16_t DriverQueues(Driver driver) {
  switch (driver) {
    case Driver::kMemif:
      // With a peer that has fewer, the others stay unconnected: what is sent there waits for ever.
      return 1;
    case Driver::kAfXdp:
      // One queue of the interface's; others would have to be there and be steered to.
      return 1;
    case Driver::kPci:
    case Driver::kRing:
    case Driver::kAfPacket:
    case Driver::kTap:
    case Driver::kOther:
      break;
  }
  return UINT16_MAX;
}

Descriptors DriverDescriptors(Driver driver) {
  // A tap's receive descriptors are the segments of one frame, each a buffer kept for good.
  if (driver == Driver::kTap) return {.rx = 4, .tx = 64};
  return {.rx = 512, .tx = 512};
}

}  // namespace pollux::io

// Stands for setsockopt() in all that is linked with this library (--wrap in BUILD.bazel), to
// choose the number of a port's fan-out group (packet(7)) as ProbeDevice() says: the kernel gives
// the first socket a number that no other has, and the others join it.
extern "C" int __real_setsockopt(int fd, int level, int option, const void* value,
                                 socklen_t length);
extern "C" int __wrap_setsockopt(int fd, int level, int option, const void* value,
                                 socklen_t length) {
  uint32_t wanted = 0;  // type and flags in the upper half, the number in the lower one
  pollux::io::FanoutGroup* const group = pollux::io::probed_group;
  if (level != SOL_PACKET || option != PACKET_FANOUT || length != sizeof wanted ||
      group == nullptr) {
    return __real_setsockopt(fd, level, option, value, length);
  }
  std::memcpy(&wanted, value, sizeof wanted);
  wanted &= 0xFFFF0000;
  wanted |= group->number ? *group->number : uint32_t{PACKET_FANOUT_FLAG_UNIQUEID} << 16;
  const int result = __real_setsockopt(fd, level, option, &wanted, sizeof wanted);
  if (result == 0 && !group->number && getsockopt(fd, level, option, &wanted, &length) == 0) {
    group->number = static_cast<uint16_t>(wanted);
  }
  return result;
}

// Stands for mmap64() in all that is linked with this library (--wrap in BUILD.bazel), as
// ProbeDevice() says. The driver maps rings with MAP_LOCKED. The kernel would refuse rings above
// RLIMIT_MEMLOCK, although their pages are never swapped out in any case.
extern "C" void* __real_mmap64(void* address, size_t length, int protection, int flags, int fd,
                               off64_t offset);
extern "C" void* __wrap_mmap64(void* address, size_t length, int protection, int flags, int fd,
                               off64_t offset) {
  if (pollux::io::probed_group != nullptr && fd >= 0) flags &= ~MAP_LOCKED;
  return __real_mmap64(address, length, protection, flags, fd, offset);
}

// Stands for ioctl() in all that is linked with this library (--wrap in BUILD.bazel), as
// StartDevice() says.
extern "C" int __real_ioctl(int fd, unsigned long request, ...);
extern "C" int __wrap_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool sets = request == SIOCSIFHWADDR || request == SIOCSIFFLAGS;
  if (sets && pollux::io::starts_interface) return 0;
  return __real_ioctl(fd, request, argument);
}

// Stands for sendmsg() in all that is linked with this library (--wrap in BUILD.bazel), for the
// sake of the memif driver, the only one to call it on the interrupt thread. If its first message
// to a client cannot be sent, the driver closes a socket for which it has registered a callback,
// and the interrupt thread ends the process when it next waits for that descriptor. So a client
// that is gone is reported as served: the driver finds the end when it reads, and then removes the
// callback first. Nor may a client that does not read block the thread.
extern "C" ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
extern "C" ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  if (rte_thread_is_intr() == 0) return __real_sendmsg(fd, message, flags);
  const ssize_t sent = __real_sendmsg(fd, message, flags | MSG_DONTWAIT);
  if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET)) return sent;
  ssize_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  return bytes;
}
