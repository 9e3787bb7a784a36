// The report of a benchmark as one HTML file that needs nothing else: no script, no fetch.
#ifndef POLLUX_TOOLS_BENCH_PAGE_H_
#define POLLUX_TOOLS_BENCH_PAGE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/chart.h"
#include "tools/bench/verdict.h"
#include "tools/common/histogram.h"
#include "tools/common/local_file.h"

namespace pollux::tools {

struct PageTable {
  std::string caption;
  std::vector<std::string> head;               // the first column names the row
  std::vector<std::vector<std::string>> rows;  // each as long as the head
};

struct PageSection {
  std::string title;
  std::string note;
  std::vector<Verdict> verdicts;
  std::vector<Chart> charts;
  std::vector<PageTable> tables;
};

struct Page {
  std::string title;
  std::string lead;  // what was measured, in a sentence or two
  std::vector<std::pair<std::string, std::string>> conditions;
  std::vector<PageSection> sections;
};

std::string RenderPage(const Page& page);

// What every run was made under, of this machine: date, host's processor and its count, kernel.
std::vector<std::pair<std::string, std::string>> MachineConditions();

// A latency distribution by percentile, and its distribution function. Names are told in the
// legend.
using NamedLatencies = std::vector<std::pair<std::string, const Histogram*>>;
Chart PercentileChart(const std::string& title, const NamedLatencies& latencies_ns);
Chart CdfChart(const std::string& title, const NamedLatencies& latencies_ns);

// Where --html writes to. Made before the measurement, so that what cannot be written is known
// before it is waited for; an empty path writes nothing.
class PageFile {
 public:
  explicit PageFile(const std::string& path);
  // Errors, before and after: what the system says.
  absl::Status status() const { return file_ ? file_->status() : absl::OkStatus(); }
  absl::Status Write(const Page& page);

 private:
  std::optional<DestinationFile> file_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_PAGE_H_
