// The string by which a user names a port: DPDK's devargs, "net_tap0,iface=plx0" or a PCI address.
#ifndef POLLUX_STACK_IO_PORT_DEVARGS_H_
#define POLLUX_STACK_IO_PORT_DEVARGS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace pollux::io {

// What serves the port; each carries frames under rules of its own (port_driver.h).
enum class Driver { kPci, kRing, kMemif, kAfPacket, kAfXdp, kTap, kOther };

// Of the port of that name, with or without its arguments.
Driver DriverOf(const std::string& devargs);

class Devargs {
 public:
  // InvalidArgument when the name is missing or an argument has no "key=value" form. A PCI address
  // without its domain gets domain 0000.
  static absl::StatusOr<Devargs> Parse(const std::string& text);

  // Of the device as DPDK knows it: "net_tap0", "0000:03:00.0".
  const std::string& name() const { return name_; }
  Driver driver() const { return driver_; }
  std::optional<std::string> Get(const std::string& key) const;
  // The value as a decimal number; nothing when absent or not one.
  std::optional<uint32_t> GetNumber(const std::string& key) const;
  void SetDefault(const std::string& key, const std::string& value);
  std::string ToString() const;

 private:
  Devargs() = default;
  std::string name_;
  Driver driver_ = Driver::kOther;
  std::vector<std::pair<std::string, std::string>> arguments_;
};

}  // namespace pollux::io

#endif  // POLLUX_STACK_IO_PORT_DEVARGS_H_
