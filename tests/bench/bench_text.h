// The tables and the JSON of tools/dev bench.
#ifndef POLLUX_TESTS_BENCH_BENCH_TEXT_H_
#define POLLUX_TESTS_BENCH_BENCH_TEXT_H_

#include <nlohmann/json.hpp>

#include "tests/bench/results.h"

namespace pollux::bench {

// To standard output.
void PrintSection(const Results::Section& of);
nlohmann::ordered_json SectionJson(const Results::Section& of);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_BENCH_TEXT_H_
