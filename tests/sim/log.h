// The log of a random program: the first violation, and a digest of all events.
#ifndef POLLUX_TESTS_SIM_LOG_H_
#define POLLUX_TESTS_SIM_LOG_H_

#include <cstdint>
#include <string>

namespace pollux::sim {

struct Log {
  std::string violation;  // the first one
  uint64_t digest = 0xCBF29CE484222325;

  void Violate(const std::string& what) {
    if (violation.empty()) violation = what;
  }
  void Digest(uint64_t value) { digest = (digest ^ value) * 0x100000001B3; }
};

}  // namespace pollux::sim

#endif  // POLLUX_TESTS_SIM_LOG_H_
