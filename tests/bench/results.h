// What came of all passes, wire by wire.
#ifndef POLLUX_TESTS_BENCH_RESULTS_H_
#define POLLUX_TESTS_BENCH_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/figures.h"
#include "tests/bench/wires.h"
#include "tools/bench/core_to_core.h"

namespace pollux::bench {

// The figure of a pass that says how far its two cores were apart, in ns, measured before and after
// each of its parts.
inline constexpr char kCoreToCore[] = "core to core";

// Throughout a pass.
tools::CoreDistance CoresOf(const Figures& pass);

// Passes in which the cores were near and passes in which they were far are never mixed: neither
// median would be one of anything.
class Results {
 public:
  struct Section {
    std::string name;  // the wire's, and with passes of both kinds how far the cores were apart
    Wire wire;
    tools::CoreDistance cores;
    size_t passes;
    const Figures* figures;
  };

  void Add(Wire wire, const Figures& pass);
  // In the order of the wires; they refer to this.
  std::vector<Section> Sections() const;

 private:
  struct Passes {
    size_t count = 0;
    Figures figures;
  };
  std::map<Wire, std::map<tools::CoreDistance, Passes>> wires_;
};

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_RESULTS_H_
