// The report of a benchmark as one self-contained HTML file, without scripts and external
// resources.
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
  std::vector<std::string> head;               // the first column has the rows' names
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
  std::string lead;  // one or two sentences: what was measured
  std::vector<std::pair<std::string, std::string>> conditions;
  std::vector<PageSection> sections;
};

std::string RenderPage(const Page& page);

// The conditions that this machine sets for every run: date, type and number of processors, kernel.
std::vector<std::pair<std::string, std::string>> MachineConditions();

// A latency distribution by percentile, and its distribution function. The legend shows the names.
using NamedLatencies = std::vector<std::pair<std::string, const Histogram*>>;
Chart PercentileChart(const std::string& title, const NamedLatencies& latencies_ns);
Chart CdfChart(const std::string& title, const NamedLatencies& latencies_ns);

// The file for --html. It is created before the measurements, so that an unwritable path is
// reported before the user waits for them. Does nothing if the path is empty.
class PageFile {
 public:
  explicit PageFile(const std::string& path);
  // Errors of both functions: those of the file system.
  absl::Status status() const { return file_ ? file_->status() : absl::OkStatus(); }
  absl::Status Write(const Page& page);

 private:
  std::optional<DestinationFile> file_;
};

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_BENCH_PAGE_H_
