// What a port needs of its host, and what would be better.
#ifndef POLLUX_TOOLS_DOCTOR_EXAMINATION_H_
#define POLLUX_TOOLS_DOCTOR_EXAMINATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/host.h"
#include "tools/doctor/port_choice.h"

namespace pollux::tools {

struct Finding {
  std::string name;
  bool needed = false;  // the port does not work without; otherwise it is advice
  bool good = false;
  std::string found;
  std::string wanted;
  // Fixes it when typed in a shell; prose stands behind a '#'. Empty where nothing is to be fixed.
  std::string command = "";

  bool lacking() const { return needed && !good; }
  const char* state() const { return good ? "ok" : needed ? "lacking" : "advice"; }
};

// In the order in which one would fix them. `memory_mib`: what --memory asks for.
std::vector<Finding> Examine(const Host& host, const PortChoice& port, uint64_t memory_mib);

// The largest RoCE path MTU of an interface whose MTU is `mtu`; 0: none.
uint32_t PathMtuOf(uint32_t mtu);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_EXAMINATION_H_
