// pollux ping: NULL calls to a server, one at a time, each with its time.
#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stack/engine/polling/clock.h"
#include "tools/common/await.h"
#include "tools/common/duration.h"
#include "tools/common/interrupt.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/pollux/ping_summary.h"
#include "tools/pollux/remote.h"

namespace pollux::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct PingOptions {
  RemoteOptions remote;
  uint64_t count = 1;  // 0: until something else ends it
  double interval_s = 0;
  double deadline_s = 0;  // after connecting; 0: none
  bool quiet = false;
  std::optional<double> threshold_ns;

  bool prints_calls() const { return !quiet && !remote.json; }
};

uint64_t NsOf(Clock::duration time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

// Measures on the core, so that waking this thread does not count. A call that is under way at the
// deadline is cut off.
absl::StatusOr<uint64_t> TimeCall(Remote& server, std::optional<Clock::time_point> deadline) {
  using Result = absl::StatusOr<uint64_t>;
  std::promise<Result> promise;
  std::future<Result> answer = promise.get_future();
  FileClient& client = server.client();
  server.node().Run([&] {
    const engine::Clock clock;
    client.Null([&promise, clock, start = clock.NowNs()](const absl::Status& status) {
      const uint64_t ns = clock.NowNs() - start;
      promise.set_value(status.ok() ? Result(ns) : Result(status));
    });
  });
  bool cut = false;
  return InterruptedOr(Await(server.node(), client, answer, [&] {
    if (cut || !deadline || Clock::now() < *deadline) return;
    cut = true;
    server.node().Run([&client] { client.Disconnect([] {}); });
  }));
}

// Calls until the count, the deadline, an interrupt or a failure, which it returns.
absl::Status CallOften(const PingOptions& ping, const std::string& name, Remote& server,
                       PingSummary* summary) {
  const Clock::time_point start = Clock::now();
  const auto after = [&start](double seconds) {
    return start +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  std::optional<Clock::time_point> deadline;
  if (ping.deadline_s > 0) deadline = after(ping.deadline_s);
  while (ping.count == 0 || summary->sent() < ping.count) {
    Clock::time_point due = after(ping.interval_s * static_cast<double>(summary->sent()));
    if (deadline && due >= *deadline) due = *deadline;
    for (auto now = Clock::now(); now < due && !Interrupted(); now = Clock::now()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - now).count();
      SleepUntilInterrupted(static_cast<int>(std::min<int64_t>(left, kTickMs)));
    }
    if (Interrupted() || (deadline && Clock::now() >= *deadline)) break;
    summary->Sent();
    const Clock::time_point sent = Clock::now();
    const absl::StatusOr<uint64_t> ns = TimeCall(server, deadline);
    if (!ns.ok()) {
      const Clock::time_point now = Clock::now();
      const bool cut = Interrupted() || (deadline && now >= *deadline);
      if (!cut) return ns.status();
      summary->Unanswered(NsOf(now - sent));
      return absl::OkStatus();
    }
    const std::string line = summary->Answered(*ns, name);
    if (!ping.prints_calls()) continue;
    if (absl::Status status = PrintOut(line); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int Ping(const PingOptions& ping, const std::string& name) {
  const bool json = ping.remote.json;
  auto connected = Remote::Connect(ping.remote, name);
  if (!connected.ok()) return Finish("ping", json, connected.status(), {}, "");
  Remote& server = **connected;
  PingSummary summary(ping.threshold_ns);
  const Clock::time_point start = Clock::now();
  absl::Status status = Explain(server.node(), CallOften(ping, name, server, &summary));
  if (absl::IsUnimplemented(status) && ping.remote.program == 0) {
    status = absl::UnimplementedError(absl::StrCat(
        status.message(),
        " (the file service, the default); --program 100003 --version 3 asks for NFS"));
  }
  const uint64_t elapsed_ns = NsOf(Clock::now() - start);
  // With a count, an interrupt that comes before the last answer is a failure.
  if (status.ok()) status = summary.Verdict(ping.count);
  if (!status.ok() && Interrupted() && summary.answers() < ping.count) {
    status = absl::CancelledError("interrupted");
  }
  const FileClient::Negotiated negotiated =
      server.node().Run([&] { return server.client().negotiated(); });
  nlohmann::ordered_json out = summary.Json();
  out.update({{"client_to_server_inline", negotiated.client_to_server_inline},
              {"server_to_client_inline", negotiated.server_to_client_inline},
              {"peer_private_data", negotiated.peer_sent_private_data},
              {"credits", negotiated.credits}});
  if (!json) {
    status.Update(PrintOut(absl::StrCat(
        summary.Text(name, elapsed_ns),
        absl::StrFormat("inline %u/%u bytes, peer %s RFC 8797 private data, grants %u credits\n",
                        negotiated.client_to_server_inline, negotiated.server_to_client_inline,
                        negotiated.peer_sent_private_data ? "sent" : "sent no",
                        negotiated.credits))));
  }
  return Finish("ping", json, status, out, "");
}

bool IsGiven(const Options& options, const std::string& name) {
  return std::ranges::any_of(options.given(),
                             [&name](const auto& one) { return one.first == name; });
}

}  // namespace

int PingCommand(int argc, char** argv) {
  PingOptions ping;
  uint64_t program = 0, version = 0;
  Options options("ping [options] ADDR",
                  "Connects by RDMA CM, negotiates (RFC 8797), calls procedure NULL, disconnects.\n"
                  "Any RPC-over-RDMA service answers: --program 100003 --version 3 for NFS.\n"
                  "Prints a line for each call, and then the loss and the times. Exit status 1\n"
                  "if no call was answered or, with -c, any call was not answered.");
  DeclareRemoteOptions(options, &ping.remote);
  options.Number("count", "number of calls (1; unlimited with -i or -w)", 1, 1'000'000'000,
                 &ping.count);
  options.Letter("count", 'c');
  options.Real("interval", "seconds between calls (0; 1 with -w but without -c)", 0, 86'400,
               &ping.interval_s);
  options.Letter("interval", 'i');
  options.Real("deadline", "end this many seconds after connecting, even if calls are\nunanswered",
               0.001, 1e7, &ping.deadline_s);
  options.Letter("deadline", 'w');
  options.Switch("quiet", "only the summary", &ping.quiet);
  options.Letter("quiet", 'q');
  options.Parsed("threshold", "TIME", "exit status 1 if a call takes longer, such as 50us or 1ms",
                 [&ping](const std::string& text) {
                   const absl::StatusOr<double> ns = ParseDurationNs(text);
                   if (ns.ok()) ping.threshold_ns = *ns;
                   return ns.status();
                 });
  options.Number("program", "number of the RPC program (the file service)", 0, 0xFFFFFFFF,
                 &program);
  options.Number("version", "version of the program", 0, 0xFFFFFFFF, &version);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("ping", options, argc, argv, 1, 1, &operands)) return *done;
  if (version != 0 && program == 0) {
    return Fail("ping", absl::InvalidArgumentError(
                            "--version needs --program; the file service has only one version"));
  }
  ping.remote.program = static_cast<uint32_t>(program);
  ping.remote.version = static_cast<uint32_t>(version);
  const bool paced = IsGiven(options, "interval");
  if (!IsGiven(options, "count") && (paced || ping.deadline_s > 0)) {
    ping.count = 0;
    if (!paced) ping.interval_s = 1;
  }
  return Ping(ping, operands[0]);
}

}  // namespace pollux::tools
