// The string with which a user names a port: DPDK's devargs, "net_tap0,iface=plx0" or a PCI
// address.
#ifndef POLLUX_STACK_IO_PORT_DEVARGS_H_
#define POLLUX_STACK_IO_PORT_DEVARGS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace pollux::io {

// The driver of a port. Each has its own rules for the frames that it carries (port_driver.h).
enum class Driver { kPci, kRing, kMemif, kAfPacket, kAfXdp, kTap, kOther };

// The driver of the port with this name, which may be followed by arguments.
Driver DriverOf(const std::string& devargs);

class Devargs {
 public:
  // Returns InvalidArgument if the name is missing or an argument is not "key=value". A PCI address
  // without a domain gets domain 0000.
  static absl::StatusOr<Devargs> Parse(const std::string& text);

  // The name of the device in DPDK: "net_tap0", "0000:03:00.0".
  const std::string& name() const { return name_; }
  Driver driver() const { return driver_; }
  std::optional<std::string> Get(const std::string& key) const;
  // The value as a decimal number; nothing if the key is missing or the value is not a number.
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
