#include "tools/doctor/examination.h"

#include <linux/capability.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kLongestHeaders = 96;  // as ip::PathMtu() counts them
constexpr uint32_t kMaxPathMtu = 4096;
constexpr uint32_t kMaxAfXdpPathMtu = 2048;  // a frame there has one page, with headroom
constexpr uint64_t kSlowWakeupUs = 10;       // about what a round trip takes

constexpr char kVfio[] = "vfio-pci";

class Examination {
 public:
  Examination(const Host& host, const PortChoice& port, uint64_t memory_mib)
      : host_(host), port_(port), memory_mib_(memory_mib) {}

  std::vector<Finding> Run() {
    Version();
    Sysfs();
    if (port_.kind == PortKind::kPci) {
      PciDevice();
    } else if (port_.kind == PortKind::kNone) {
      Iommu(IommuGroups() > 0, false);
      VfioModule(false);
    }
    if (!port_.interface.empty()) Interface();
    if (port_.kind == PortKind::kNone) RocePortOfHost();
    if (port_.kind == PortKind::kTap) {
      DeviceFile("tun device", "/dev/net/tun", "modprobe tun  # or, ");
    }
    Capabilities();
    LockedMemory();
    HugePages();
    Isolation();
    IdleStates();
    ClockSource();
    return std::move(findings_);
  }

 private:
  bool over_kernel_interface() const {
    return port_.kind == PortKind::kNetdev || port_.kind == PortKind::kAfPacket ||
           port_.kind == PortKind::kAfXdp;
  }
  bool is_uio() const { return pci_driver_ == "uio_pci_generic" || pci_driver_ == "igb_uio"; }
  // A kernel driver that stays, with DPDK beside it.
  bool is_bifurcated() const { return pci_driver_ == "mlx4_core" || pci_driver_ == "mlx5_core"; }
  bool wants_vfio() const { return port_.kind == PortKind::kPci && !is_uio() && !is_bifurcated(); }
  // If the kernel allows vfio without an IOMMU, DPDK uses physical addresses, even behind an IOMMU.
  bool unsafe_vfio() const { return wants_vfio() && AllowsUnsafeVfio(); }
  bool without_iommu() const { return unsafe_vfio() && !HasIommu(); }
  std::string Pci(const std::string& file = "") const {
    return absl::StrCat("/sys/bus/pci/devices/", port_.pci_address, file);
  }

  void Add(Finding finding) {
    if (finding.good) finding.command.clear();
    findings_.push_back(std::move(finding));
  }

  void Version() {
    Add({.name = "DPDK",
         .good = absl::StartsWith(host_.dpdk_version, "DPDK 22.11") ||
                 absl::StartsWith(host_.dpdk_version, "DPDK 24.11"),
         .found = host_.dpdk_version,
         .wanted = "DPDK 22.11 or 24.11, with which Pollux is tested",
         .command = "# build Pollux with libdpdk-dev of Debian 12 or 13"});
  }

  void Sysfs() {
    const bool there = host_.Exists("/sys/devices/system/cpu");
    Add({.name = "sysfs",
         .needed = port_.kind != PortKind::kNone,
         .good = there,
         .found = there ? "mounted" : "no /sys/devices/system/cpu",
         .wanted = "mounted: DPDK finds CPUs there",
         .command = "mount -t sysfs sysfs /sys"});
  }

  bool AllowsUnsafeVfio() const {
    return absl::StartsWith(host_.Line("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"),
                            "Y");
  }

  // vfio makes groups with this name for devices without an IOMMU.
  bool IsUnsafeGroup(const std::string& folder) const {
    return host_.Line(folder + "/name") == "vfio-noiommu";
  }

  bool HasIommu() const {
    const std::string group = Pci("/iommu_group");
    return host_.Exists(group) && !IsUnsafeGroup(group);
  }

  size_t IommuGroups() const {
    const std::string folder = "/sys/kernel/iommu_groups/";
    std::vector<std::string> groups = host_.List(folder);
    std::erase_if(groups, [&](const std::string& group) { return IsUnsafeGroup(folder + group); });
    return groups.size();
  }

  void Iommu(bool good, bool needed) {
    const bool amd = absl::StrContains(host_.Text("/proc/cpuinfo"), "AuthenticAMD");
    const bool unsafe = AllowsUnsafeVfio();
    const size_t groups = IommuGroups();
    std::string found = groups == 0 ? "off" : absl::StrCat("on, ", groups, " groups");
    if (groups > 0 && !good) found = "on, but this device is in no group";
    if (!good && unsafe) found = "off; vfio works without one (unsafe)";
    Add({.name = "IOMMU",
         .needed = needed,
         .good = good || unsafe,
         .found = std::move(found),
         .wanted = "on, for vfio-pci",
         .command = absl::StrCat("# enable it in the firmware, and boot with ",
                                 amd ? "amd_iommu=on" : "intel_iommu=on", " iommu=pt")});
  }

  void VfioModule(bool needed) {
    const bool loaded = host_.Exists("/sys/bus/pci/drivers/vfio-pci");
    Add({.name = "vfio",
         .needed = needed,
         .good = loaded,
         .found = loaded ? "vfio-pci is loaded" : "vfio-pci is not loaded",
         .wanted = "vfio-pci loaded",
         .command = "modprobe vfio-pci"});
  }

  void PciDevice() {
    const bool there = host_.Exists(Pci());
    Add({.name = "PCI device",
         .needed = true,
         .good = there,
         .found = there ? absl::StrCat(host_.Line(Pci("/vendor")), ":", host_.Line(Pci("/device")))
                        : "no device at this address",
         .wanted = absl::StrCat("a NIC at ", port_.pci_address),
         .command = "lspci -D | grep -i ethernet"});
    if (!there) return;
    pci_driver_ = host_.LinkName(Pci("/driver"));
    if (wants_vfio()) {
      Iommu(HasIommu(), true);
      VfioModule(true);
    }
    PciDriver();
    if (is_bifurcated()) AdapterRoce(Pci(), port_.pci_address);
    if (wants_vfio()) IommuGroup();
    if (pci_driver_ == kVfio) {
      VfioFile();
    }
    if (is_uio()) {
      for (const std::string& uio : host_.List(Pci("/uio"))) {
        DeviceFile("device file", absl::StrCat("/dev/", uio));
      }
    }
  }

  void VfioFile() {
    const std::string group = host_.LinkName(Pci("/iommu_group"));
    if (group.empty()) {
      Add({.name = "device file",
           .needed = true,
           .found = "no IOMMU group",
           .wanted = "a file in /dev/vfio",
           .command = absl::StrCat("dpdk-devbind.py -u ", port_.pci_address,
                                   "; dpdk-devbind.py -b vfio-pci ", port_.pci_address)});
      return;
    }
    const std::string file =
        absl::StrCat("/dev/vfio/", IsUnsafeGroup(Pci("/iommu_group")) ? "noiommu-" : "", group);
    DeviceFile("device file", file);
  }

  std::vector<std::string> KernelInterfaces() const {
    std::vector<std::string> names = host_.List(Pci("/net"));
    // The interfaces of a virtio NIC belong to a child of the PCI device, virtioN.
    for (const std::string& entry : host_.List(Pci())) {
      if (!absl::StartsWith(entry, "virtio")) continue;
      for (std::string& name : host_.List(Pci(absl::StrCat("/", entry, "/net")))) {
        names.push_back(std::move(name));
      }
    }
    return names;
  }

  void PciDriver() {
    const std::vector<std::string> netdevs = KernelInterfaces();
    std::string command;
    for (const std::string& netdev : netdevs) {
      absl::StrAppend(&command, "ip link set ", ShellQuoted(netdev), " down; ");
    }
    absl::StrAppend(&command, "dpdk-devbind.py -b vfio-pci ", port_.pci_address);
    Add({.name = "driver",
         .needed = true,
         .good = pci_driver_ == kVfio || is_uio() || is_bifurcated(),
         .found = pci_driver_.empty() ? "none"
                  : netdevs.empty()
                      ? pci_driver_
                      : absl::StrCat(pci_driver_, ", the kernel's ", absl::StrJoin(netdevs, ", ")),
         .wanted = "vfio-pci, or uio_pci_generic without an IOMMU",
         .command = std::move(command)});
  }

  // The kernel gives all devices of a group to one process.
  void IommuGroup() {
    std::vector<std::string> others;
    for (const std::string& device : host_.List(Pci("/iommu_group/devices"))) {
      if (device == port_.pci_address) continue;
      const std::string driver =
          host_.LinkName(absl::StrCat("/sys/bus/pci/devices/", device, "/driver"));
      if (driver.empty() || driver == kVfio || driver == "pcieport") continue;
      others.push_back(device);
    }
    Add({.name = "IOMMU group",
         .needed = true,
         .good = others.empty(),
         .found = others.empty()
                      ? "no other device with a kernel driver"
                      : absl::StrCat("also ", absl::StrJoin(others, ", "), ", with kernel drivers"),
         .wanted = "no other device with a kernel driver",
         .command = absl::StrCat("dpdk-devbind.py -b vfio-pci ", absl::StrJoin(others, " "),
                                 "  # or another slot for the NIC")});
  }

  // `make` is the beginning of the command if the file does not exist.
  void DeviceFile(const std::string& name, const std::string& path,
                  const std::string& make = "# ") {
    const bool there = host_.Exists(path);
    const bool usable = there && host_.CanUse(path);
    Add({.name = name,
         .needed = true,
         .good = usable,
         .found = usable  ? path
                  : there ? absl::StrCat(path, " cannot be read and written by this user")
                          : absl::StrCat("no ", path),
         .wanted = absl::StrCat(path, ", readable and writable"),
         .command = there ? absl::StrCat("chown USER ", path)
                          : absl::StrCat(make, "in a container: --device=", path)});
  }

  void Interface() {
    const std::optional<InterfaceFacts> facts = host_.interface(port_.interface);
    // A tap is made when the port opens.
    if (!over_kernel_interface()) return;
    const std::string name = ShellQuoted(port_.interface);
    const bool refused = facts.has_value() && facts->loopback && port_.kind == PortKind::kNetdev;
    Add({.name = "interface",
         .needed = true,
         .good = facts.has_value() && !refused,
         .found = refused ? "loopback addresses are not served"
                  : facts ? port_.interface
                          : "no such interface",
         .wanted = refused ? "an interface to the network" : port_.interface,
         .command = "ip link"});
    if (!facts || refused) return;
    Add({.name = "link",
         .needed = true,
         .good = facts->up && facts->carrier,
         .found = !facts->up       ? "down"
                  : facts->carrier ? "up, with carrier"
                                   : "up, no carrier",
         .wanted = "up, with carrier",
         .command = facts->up ? absl::StrCat("ethtool ", name, "  # connect it")
                              : absl::StrCat("ip link set ", name, " up")});
    Mtu(*facts);
    if (port_.kind == PortKind::kNetdev) {
      Add({.name = "address",
           .needed = true,
           .good = facts->addresses > 0,
           .found =
               facts->addresses > 0 ? absl::StrCat(facts->addresses, " in the kernel") : "none",
           .wanted = "at least one",
           .command = absl::StrCat("ip address add ADDR/LEN dev ", name)});
      RocePort(facts->roce_port_taken);
      const std::string device = absl::StrCat("/sys/class/net/", port_.interface, "/device");
      AdapterRoce(device, host_.LinkName(device));
      Add({.name = "loopback interface",
           .good = facts->lo_up,
           .found = facts->lo_up ? "up" : "down",
           .wanted = "up, for programs on this interface that connect to each other",
           .command = "ip link set lo up"});
    } else {
      Add({.name = "address",
           .good = facts->addresses == 0,
           .found = absl::StrCat(facts->addresses, " in the kernel"),
           .wanted = "none: the kernel answers for them too",
           .command = absl::StrCat("# use --netdev ", name)});
    }
  }

  // A bridge accepts any MTU, but drops packets that are longer than the MTU of the port that is to
  // send them. A VLAN's MTU cannot exceed that of the interface below it.
  void Mtu(const InterfaceFacts& facts) {
    const uint32_t most = port_.kind == PortKind::kAfXdp ? kMaxAfXdpPathMtu : kMaxPathMtu;
    const uint32_t wanted = most + kLongestHeaders;
    std::vector<LowerInterface> interfaces = facts.lower;
    interfaces.push_back({.name = port_.interface, .mtu = facts.mtu});
    LowerInterface smallest = interfaces.back();
    std::vector<std::string> commands;
    for (const LowerInterface& one : interfaces) {
      if (one.mtu < smallest.mtu) smallest = one;
      if (one.mtu >= wanted) continue;
      commands.push_back(absl::StrFormat("ip link set %s mtu %u", ShellQuoted(one.name), wanted));
    }
    const std::string found = absl::StrCat(
        smallest.mtu,
        smallest.name == port_.interface ? std::string()
                                         : absl::StrCat(" of ", Printable(smallest.name)));
    const uint32_t path_mtu = std::min(PathMtuOf(smallest.mtu), most);
    Add({.name = "MTU",
         .needed = path_mtu == 0,
         .good = path_mtu == most,
         .found = path_mtu == 0 ? absl::StrCat(found, ": too small for RoCE")
                                : absl::StrCat(found, ": path MTU ", path_mtu),
         .wanted = absl::StrFormat("at least %u, for path MTU %u", wanted, most),
         .command = absl::StrCat(absl::StrJoin(commands, "; "),
                                 "  # also on the peer and on switches between")});
  }

  bool has_rxe() const { return host_.Exists("/sys/module/rdma_rxe"); }

  // In most kernels the sockets of UDP port 4791 belong to the module, not to its devices.
  std::string EndRxe() const {
    for (const std::string& device : host_.List("/sys/class/infiniband")) {
      const std::string parent =
          host_.Line(absl::StrCat("/sys/class/infiniband/", device, "/parent"));
      if (!parent.empty() && parent == port_.interface) {
        return absl::StrCat("rdma link delete ", device, "; modprobe -r rdma_rxe");
      }
    }
    return "modprobe -r rdma_rxe";
  }

  // The commands that end them.
  std::string EndOwners(const std::vector<PortOwner>& owners) const {
    std::vector<std::string> commands;
    for (const PortOwner& owner : owners) {
      if (owner.pid != 0) commands.push_back(absl::StrCat("kill ", owner.pid));
      if (owner.pid == 0 && has_rxe()) commands.push_back(EndRxe());
    }
    if (commands.empty()) return absl::StrCat("ss -ulpn sport = ", kRocePort, "  # as root");
    return absl::StrJoin(commands, "; ");
  }

  std::string Owners(const std::vector<PortOwner>& owners) const {
    std::vector<std::string> words;
    for (const PortOwner& owner : owners) {
      if (owner.pid != 0) {
        words.push_back(absl::StrCat(Printable(owner.name), " (process ", owner.pid, ")"));
      } else {
        words.push_back(absl::StrCat(has_rxe() ? "rdma_rxe" : "the kernel",
                                     ", or a process that is not visible here"));
      }
    }
    return absl::StrJoin(words, ", ");
  }

  void RocePort(bool taken) {
    const std::vector<PortOwner> owners = OwnersOfUdpPort(host_, kRocePort);
    std::string found = "free";
    if (taken && owners.empty()) found = "taken";
    if (taken && !owners.empty()) found = absl::StrCat("taken by ", Owners(owners));
    if (!taken && !owners.empty()) {
      found = absl::StrCat("free for Pollux; used by ", Owners(owners));
    }
    Add({.name = "UDP port 4791",
         .needed = true,
         .good = !taken,
         .found = std::move(found),
         .wanted = "free on this interface",
         .command = EndOwners(owners)});
  }

  // An adapter with RoCE of its own may take the packets itself: mlx5 does, unless devlink's
  // parameter enable_roce is false.
  void AdapterRoce(const std::string& device, const std::string& pci_address) {
    const std::vector<std::string> rdma = host_.List(absl::StrCat(device, "/infiniband"));
    if (rdma.empty()) return;
    Add({.name = "RoCE of the adapter",
         .found = absl::StrCat("RDMA device ", absl::StrJoin(rdma, ", "),
                               ", which may take the packets to UDP port 4791"),
         .wanted = "disabled",
         .command = host_.LinkName(absl::StrCat(device, "/driver")) == "mlx5_core"
                        ? absl::StrCat("devlink dev param set pci/", pci_address,
                                       " name enable_roce value false cmode driverinit; "
                                       "devlink dev reload pci/",
                                       pci_address)
                        : "# disable RoCE in the adapter's configuration"});
  }

  void RocePortOfHost() {
    const std::vector<PortOwner> owners = OwnersOfUdpPort(host_, kRocePort);
    const bool shared = SharesRocePort(host_);
    Add({.name = "UDP port 4791",
         .good = owners.empty() || shared,
         .found = owners.empty() ? "free"
                                 : absl::StrCat(shared ? "shared by programs of Pollux; " : "",
                                                "used by ", Owners(owners)),
         .wanted = "free on the interface of --netdev",
         .command = EndOwners(owners)});
  }

  void Capabilities() {
    std::vector<std::pair<std::string, int>> needed;
    const bool none = port_.kind == PortKind::kNone;
    if (over_kernel_interface() || none) needed.emplace_back("NET_RAW", CAP_NET_RAW);
    if (over_kernel_interface() || port_.kind == PortKind::kTap || none) {
      needed.emplace_back("NET_ADMIN", CAP_NET_ADMIN);
    }
    if (port_.kind == PortKind::kAfXdp) needed.emplace_back("BPF", CAP_BPF);
    // To learn where its memory lies.
    if (is_uio() || unsafe_vfio()) needed.emplace_back("SYS_ADMIN", CAP_SYS_ADMIN);
    if (without_iommu()) needed.emplace_back("SYS_RAWIO", CAP_SYS_RAWIO);
    if (is_bifurcated()) needed.emplace_back("NET_RAW", CAP_NET_RAW);
    if (needed.empty()) return;
    const std::string list = absl::StrJoin(needed, ",", [](std::string* text, const auto& one) {
      absl::StrAppend(text, "+", one.first);
    });
    std::string lower = list;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const auto& [name, bit] : needed) {
      const bool has = HasCapability(bit) || (bit == CAP_BPF && HasCapability(CAP_SYS_ADMIN));
      Add({.name = absl::StrCat("CAP_", name),
           .needed = !none,
           .good = has,
           .found = has ? "held" : "not held",
           .wanted = none ? "held, for --netdev" : "held",
           .command = HasBit(BoundingCapabilities(host_), bit)
                          ? absl::StrCat("setpriv --reuid USER --inh-caps ", lower,
                                         " --ambient-caps ", lower, " pollux ...  # as root")
                          : absl::StrCat("# give the container --cap-add=", name)});
    }
  }

  static bool HasBit(uint64_t bits, int bit) {
    return (bits >> static_cast<unsigned>(bit) & 1) != 0;
  }
  bool HasCapability(int bit) const { return HasBit(EffectiveCapabilities(host_), bit); }

  // With an IOMMU, vfio pins what DPDK allocates.
  void LockedMemory() {
    const bool needed = port_.kind == PortKind::kPci && !is_uio() && !without_iommu();
    if (!needed && port_.kind != PortKind::kNone && port_.kind != PortKind::kAfXdp) return;
    const std::optional<uint64_t> limit = LockedMemoryLimit(host_);
    const bool exempt = HasCapability(CAP_IPC_LOCK);
    const uint64_t wanted_mib = PinnedMib();
    std::string found = limit ? Bytes(*limit) : "unlimited";
    if (exempt && limit) absl::StrAppend(&found, ", but CAP_IPC_LOCK is held");
    Add({.name = "memlock",
         .needed = needed,
         .good = exempt || !limit || *limit > wanted_mib << 20,
         .found = std::move(found),
         .wanted = absl::StrFormat("more than %u MiB, or CAP_IPC_LOCK", wanted_mib),
         .command = "ulimit -l unlimited  # or LimitMEMLOCK=infinity of systemd"});
  }

  struct HugePageSize {
    uint64_t kib = 0;
    uint64_t total = 0;  // pages
    uint64_t free = 0;   // pages, without those that other processes have reserved
    uint64_t free_mib() const { return free * kib / 1024; }
  };

  std::vector<HugePageSize> HugePageSizes() const {
    std::vector<HugePageSize> sizes;
    for (const std::string& name : host_.List("/sys/kernel/mm/hugepages")) {
      const std::string folder = absl::StrCat("/sys/kernel/mm/hugepages/", name);
      HugePageSize size;
      uint64_t reserved = 0;
      const size_t dash = name.find('-');
      if (dash == std::string::npos || !absl::EndsWith(name, "kB") ||
          !absl::SimpleAtoi(name.substr(dash + 1, name.size() - dash - 3), &size.kib) ||
          size.kib == 0) {
        continue;
      }
      (void)absl::SimpleAtoi(host_.Line(folder + "/nr_hugepages"), &size.total);
      (void)absl::SimpleAtoi(host_.Line(folder + "/free_hugepages"), &size.free);
      // By other processes, which have not touched them yet.
      (void)absl::SimpleAtoi(host_.Line(folder + "/resv_hugepages"), &reserved);
      size.free -= std::min(size.free, reserved);
      sizes.push_back(size);
    }
    return sizes;
  }

  // The memory that DPDK takes: --memory in whole huge pages, the largest ones first. If no size
  // has enough free pages for all of --memory, it uses pages of 4 KiB.
  uint64_t PinnedMib() const {
    std::vector<HugePageSize> sizes = HugePageSizes();
    std::sort(sizes.begin(), sizes.end(),
              [](const HugePageSize& a, const HugePageSize& b) { return a.kib > b.kib; });
    uint64_t free_kib = 0, most_free_mib = 0;
    for (const HugePageSize& size : sizes) {
      free_kib += size.free * size.kib;
      most_free_mib = std::max(most_free_mib, size.free_mib());
    }
    if (most_free_mib < memory_mib_) return memory_mib_;
    uint64_t left_kib = memory_mib_ * 1024, taken_kib = 0;
    for (const HugePageSize& size : sizes) {
      free_kib -= size.free * size.kib;  // those of the smaller sizes remain
      uint64_t pages = std::min(size.free, left_kib / size.kib);
      left_kib -= pages * size.kib;
      if (pages < size.free && free_kib < left_kib) ++pages, left_kib = 0;
      taken_kib += pages * size.kib;
    }
    return (taken_kib + 1023) / 1024;
  }

  void HugePages() {
    HugePageSize best;
    for (const HugePageSize& size : HugePageSizes()) {
      // Of equals the smaller: one page of 1 GiB may be more than the host can spare.
      if (best.kib == 0 || size.free_mib() > best.free_mib() ||
          (size.free_mib() == best.free_mib() && size.kib < best.kib)) {
        best = size;
      }
    }
    std::string command = "# boot a kernel with huge pages (CONFIG_HUGETLBFS)";
    if (best.kib != 0) {
      const uint64_t pages = (memory_mib_ * 1024 + best.kib - 1) / best.kib;
      const uint64_t more = pages > best.free ? pages - best.free : 0;
      command = absl::StrFormat("echo %u > /sys/kernel/mm/hugepages/hugepages-%ukB/nr_hugepages",
                                best.total + more, best.kib);
    }
    Add({.name = "huge pages",
         .needed = is_uio() || unsafe_vfio(),
         .good = best.kib != 0 && best.free_mib() >= memory_mib_,
         .found = best.kib == 0 ? "none in this kernel"
                                : absl::StrFormat("%u MiB free, of pages of %u KiB",
                                                  best.free_mib(), best.kib),
         .wanted = absl::StrFormat("%u MiB free (--memory)", memory_mib_),
         .command = std::move(command)});
  }

  void Isolation() {
    const std::string isolated = host_.Line("/sys/devices/system/cpu/isolated");
    Add({.name = "CPU isolation",
         .good = !isolated.empty(),
         .found = isolated.empty() ? "no CPU is isolated" : absl::StrCat("CPUs ", isolated),
         .wanted = "a CPU for each worker, given by --cores with --idle spin",
         .command = "# boot with isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST"});
  }

  void IdleStates() {
    uint64_t slowest = 0;
    std::string name;
    const std::string folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    for (const std::string& state : host_.List(folder)) {
      const std::string at = absl::StrCat(folder, "/", state);
      uint64_t us = 0;
      if (host_.Line(at + "/disable") == "1" || !absl::SimpleAtoi(host_.Line(at + "/latency"), &us))
        continue;
      if (us >= slowest) slowest = us, name = host_.Line(at + "/name");
    }
    Add({.name = "C-states",
         .good = slowest <= kSlowWakeupUs,
         .found =
             name.empty() ? "none" : absl::StrFormat("down to %s, %u us to wake", name, slowest),
         .wanted = absl::StrFormat("at most %u us to wake", kSlowWakeupUs),
         .command = absl::StrFormat("cpupower idle-set -D %u", kSlowWakeupUs)});
  }

  void ClockSource() {
    const std::string folder = "/sys/devices/system/clocksource/clocksource0";
    const std::string current = host_.Line(folder + "/current_clocksource");
    const std::vector<std::string> available =
        absl::StrSplit(host_.Line(folder + "/available_clocksource"), ' ');
    const bool has_tsc = std::find(available.begin(), available.end(), "tsc") != available.end();
    Add({.name = "clock source",
         .good = current == "tsc",
         .found = current.empty() ? "unknown" : current,
         .wanted = "tsc: Pollux's clock",
         .command =
             has_tsc ? absl::StrCat("echo tsc > ", folder, "/current_clocksource")
                     : "# boot with clocksource=tsc tsc=reliable, if the CPU's TSC is constant"});
  }

  const Host& host_;
  const PortChoice& port_;
  const uint64_t memory_mib_;
  std::string pci_driver_;
  std::vector<Finding> findings_;
};

}  // namespace

uint32_t PathMtuOf(uint32_t mtu) {
  for (uint32_t path_mtu = kMaxPathMtu; path_mtu >= 256; path_mtu /= 2) {
    if (mtu >= path_mtu + kLongestHeaders) return path_mtu;
  }
  return 0;
}

std::vector<Finding> Examine(const Host& host, const PortChoice& port, uint64_t memory_mib) {
  return Examination(host, port, memory_mib).Run();
}

}  // namespace pollux::tools
