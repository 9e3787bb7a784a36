// The output of the conformance command.
#ifndef POLLUX_TESTS_CONFORMANCE_REPORT_H_
#define POLLUX_TESTS_CONFORMANCE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/checker.h"

namespace pollux::conformance {

struct Failure {
  uint64_t frame = 0;  // 0: the file as a whole
  std::string reason;
};

struct FileReport {
  std::string path;
  Counts counts;
  std::vector<Failure> failures;

  bool ok() const { return failures.empty(); }
};

// True if there was anything to check and nothing failed.
bool AllPass(const std::vector<FileReport>& reports);

// Checks every frame of one file. An unreadable file counts as a failure.
FileReport CheckFile(const std::string& path);

// The counts with the keys of tests/conformance/captures/expected.txt: "aeth", "mad", "opcode" and
// "rpc".
std::map<std::string, uint64_t> KeyedCounts(const Counts& counts);

// Tables of files, opcodes, AETH syndromes, MADs and RPC-over-RDMA messages, then the failures.
std::string ToTable(const std::vector<FileReport>& reports);
// One JSON object: "ok", "files".
std::string ToJson(const std::vector<FileReport>& reports);

}  // namespace pollux::conformance

#endif  // POLLUX_TESTS_CONFORMANCE_REPORT_H_
