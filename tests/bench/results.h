// The results of all passes, wire by wire.
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

// The figure for the distance of the two cores during a pass, in ns, measured before and after each
// part.
inline constexpr char kCoreToCore[] = "core to core";

// The distance of the cores throughout a pass.
tools::CoreDistance CoresOf(const Figures& pass);

// Keeps passes with near cores apart from passes with far cores, because a median over both would
// be meaningless.
class Results {
 public:
  struct Section {
    // that of the wire, with the distance of the cores if there are passes of both kinds
    std::string name;
    Wire wire;
    tools::CoreDistance cores;
    size_t passes;
    const Figures* figures;
  };

  void Add(Wire wire, const Figures& pass);
  // In the order of the wires. They point into this object.
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
