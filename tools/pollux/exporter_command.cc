// pollux exporter: counters of the processes that run here, for Prometheus and for a browser.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/exporter/exposition.h"
#include "tools/exporter/http_server.h"
#include "tools/exporter/live_page.h"
#include "tools/exporter/metrics.h"
#include "tools/exporter/sample.h"
#include "tools/pollux/commands.h"

namespace pollux::tools {
namespace {

// For one request to a process, and for all requests of a scrape. Prometheus waits 10 s by default,
// and a scrape may have to wait for another sample before its own.
constexpr int kExporterTimeoutS = 2;
constexpr std::chrono::seconds kScrapeTimeout{3};

struct ExporterOptions {
  ProcessChoice choice{.timeout_s = kExporterTimeoutS};
  std::string listen = absl::StrCat(kListenAddress, ":", kListenPort);
  bool connections = false;
};

class Exporter {
 public:
  explicit Exporter(ExporterOptions options)
      : options_(std::move(options)), sampler_([this](bool connections) {
          ProcessChoice choice = options_.choice;
          choice.deadline = std::chrono::steady_clock::now() + kScrapeTimeout;
          return TakeSample(choice, connections);
        }) {}

  HttpResponse Respond(const HttpRequest& request) {
    if (request.path == "/") {
      return {.content_type = "text/html; charset=utf-8", .body = kLivePage};
    }
    if (request.path == "/live.json") {
      // Names that others have chosen need not be UTF-8.
      return {.content_type = "application/json",
              .body = sampler_.Sample(/*connections=*/true)
                          ->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
    }
    if (request.path == "/metrics") {
      Exposition exposition = Expose(
          Metrics(*sampler_.Sample(options_.connections), options_.connections), request.accept);
      return {.content_type = std::move(exposition.content_type),
              .body = std::move(exposition.text)};
    }
    return {.status = 404, .body = "only /, /metrics and /live.json exist\n"};
  }

 private:
  const ExporterOptions options_;
  Sampler sampler_;
};

absl::Status Export(const ExporterOptions& options) {
  // An error that exists from the start is reported at once, not at the first scrape.
  if (const auto found = LookForProcesses(options.choice); !found.ok()) return found.status();
  Exporter exporter(options);
  const auto server = HttpServer::Start(
      options.listen, [&](const HttpRequest& request) { return exporter.Respond(request); });
  if (!server.ok()) return server.status();
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  const std::string url = absl::StrCat("http://", host, ":", (*server)->port(), "/");
  std::fprintf(stderr, "serving metrics at %smetrics, live counters at %s\n", url.c_str(),
               url.c_str());
  while (!Interrupted()) SleepUntilInterrupted(3'600'000);
  return absl::OkStatus();
}

}  // namespace

int ExporterCommand(int argc, char** argv) {
  ExporterOptions exporter;
  Options options("exporter [options]",
                  "Serves the counters of the pollux processes that run here by HTTP, until it is\n"
                  "stopped: /metrics for Prometheus, / as a page of live counters for a browser.");
  options.Parsed("listen", "ADDRESS[:PORT]",
                 absl::StrCat("address to serve on (", exporter.listen, "); port 0: any free port"),
                 [&](const std::string& text) {
                   auto address = ParseListenAddress(text);
                   if (!address.ok()) return address.status();
                   exporter.listen = *std::move(address);
                   return absl::OkStatus();
                 });
  options.Parsed("pid", "PID", "only this process", [&](const std::string& text) {
    uint64_t pid = 0;
    if (!absl::SimpleAtoi(text, &pid) || pid == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a process ID"));
    }
    exporter.choice.pid = pid;
    return absl::OkStatus();
  });
  options.Text("file-prefix", "NAME", "only processes of this name (pollux-PID)",
               &exporter.choice.file_prefix);
  options.Switch(
      "connections",
      "also metrics of each connection; only for few connections, since each\nis a time series",
      &exporter.connections);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("exporter", options, argc, argv, 0, 0, &operands)) return *done;
  CatchInterrupts();
  const absl::Status status = Export(exporter);
  return status.ok() || absl::IsCancelled(status) ? kExitOk : Fail("exporter", status);
}

}  // namespace pollux::tools
