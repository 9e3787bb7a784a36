// What `bench` measures when its first argument names it. One program has all of these: to link
// one of its size takes half a minute of CPU time.
#ifndef POLLUX_TESTS_BENCH_OTHER_MEASUREMENTS_H_
#define POLLUX_TESTS_BENCH_OTHER_MEASUREMENTS_H_

namespace pollux::bench {

// `bench native IFACE ...`: one figure of the native API, for programs.py. The arguments begin with
// the name; returns the exit status.
int MeasureNative(int argc, char** argv);
// `bench paths [NAME [SCALE]]`: instructions of the main paths, for instructions.py.
int MeasurePaths(int argc, char** argv);

}  // namespace pollux::bench

#endif  // POLLUX_TESTS_BENCH_OTHER_MEASUREMENTS_H_
