// Examines what a port needs from its host, and what would improve it.
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
  bool needed = false;  // required by the port; false: advice
  bool good = false;
  std::string found;
  std::string wanted;
  // A shell command that fixes it; prose follows a '#'. Empty if there is nothing to fix.
  std::string command = "";

  bool lacking() const { return needed && !good; }
  const char* state() const { return good ? "ok" : needed ? "lacking" : "advice"; }
};

// Returns the findings in the order in which to fix them. `memory_mib`: the value of --memory.
std::vector<Finding> Examine(const Host& host, const PortChoice& port, uint64_t memory_mib);

// The largest RoCE path MTU for an interface with MTU `mtu`; 0: none.
uint32_t PathMtuOf(uint32_t mtu);

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_DOCTOR_EXAMINATION_H_
