#include "tools/tirpc/shared_port.h"

#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/common/options.h"
#include "tools/common/port_options.h"
#include "tools/common/start_node.h"

namespace pollux::tools {
namespace {

constexpr char kVariable[] = "POLLUX_PORT";

// Never destroyed: threads may outlive main().
struct PortTable {
  std::mutex mutex;  // also held while a port is opened; guards getopt's state, too
  struct Open {
    // Also held while the port is opened or closed, since DPDK opens most ports only once. In a
    // forked child it may stay locked; so the child looks at `process` first.
    std::mutex mutex;
    std::atomic<pid_t> process = 0;  // the one that has the port open; 0: none
    std::string options;
    std::unique_ptr<Node> node;
    size_t users = 0;
  };
  std::map<std::string, Open> open;  // by key; entries stay
};
PortTable& Ports() {
  static auto* const table = new PortTable;
  return *table;
}

// Does not lock the table's mutex, which is held while another port is opened, perhaps for seconds.
void Release(PortTable::Open& entry) {
  const std::lock_guard<std::mutex> lock(entry.mutex);
  if (--entry.users != 0) return;
  entry.node.reset();
  entry.process = 0;
}

// The parser works with getopt_long(), whose state a program may be in the midst of using.
class GetoptState {
 public:
  GetoptState() : index_(optind), error_(opterr), option_(optopt), argument_(optarg) {}
  ~GetoptState() {
    optind = index_;
    opterr = error_;
    optopt = option_;
    optarg = argument_;
  }
  GetoptState(const GetoptState&) = delete;
  GetoptState& operator=(const GetoptState&) = delete;

 private:
  int index_, error_, option_;
  char* argument_;
};

struct Parsed {
  PortOptions port;
  std::string port_text;  // of the options that are the port's
  uint64_t service_port = 20049;
  bool rpcbind = false;
  uint64_t max_connections = rpcrdma::tirpc::ServiceLimits{}.max_connections;
  uint64_t max_connections_per_client = 0;
};

constexpr uint64_t kMaxConnections = 10'000;
// Options that are not the port's.
constexpr std::string_view kSwitch = "--rpcbind";
constexpr std::string_view kNumbers[] = {"--service-port", "--max-connections",
                                         "--max-connections-per-client"};

absl::Status Parse(const std::string& text, Parsed* parsed) {
  const GetoptState saved;
  std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  words.insert(words.begin(), kVariable);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Options options("port options", "");
  DeclarePortOptions(options, &parsed->port);
  options.Number("service-port", "", 1, 65535, &parsed->service_port);
  options.Switch("rpcbind", "", &parsed->rpcbind);
  options.Number("max-connections", "", 1, kMaxConnections, &parsed->max_connections);
  options.Number("max-connections-per-client", "", 0, kMaxConnections,
                 &parsed->max_connections_per_client);
  auto operands = options.Parse(static_cast<int>(words.size()), argv.data(), 0, 0);
  if (!operands.ok() || options.help_asked()) {
    return absl::InvalidArgumentError(
        absl::StrCat("port options '", text, "': ",
                     operands.ok() ? "no --help here; pollux serve --help lists them"
                                   : operands.status().message()));
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view name = std::string_view(words[i]).substr(0, words[i].find('='));
    if (name == kSwitch) continue;
    if (std::ranges::find(kNumbers, name) == std::end(kNumbers)) {
      absl::StrAppend(&parsed->port_text, words[i], " ");
    } else if (name == words[i]) {
      ++i;  // its number is the next word
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RpcPlace> OpenRpcPlace(const char* options) {
  if (options == nullptr) options = std::getenv(kVariable);
  if (options == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "which port? set ", kVariable, " to the port options, as in \"--netdev eth0\""));
  }
  PortTable& table = Ports();
  const std::lock_guard<std::mutex> lock(table.mutex);
  Parsed parsed;
  if (absl::Status status = Parse(options, &parsed); !status.ok()) return status;
  const engine::DeviceOptions& device = parsed.port.device;
  RpcPlace place{.node = nullptr,
                 .key = device.netdev.empty() ? device.port : device.netdev,
                 .service_port = static_cast<uint16_t>(parsed.service_port),
                 .rpcbind = parsed.rpcbind,
                 .limits = {.max_connections = static_cast<uint32_t>(parsed.max_connections),
                            .max_connections_per_client =
                                static_cast<uint32_t>(parsed.max_connections_per_client)}};
  PortTable::Open& entry = table.open[place.key];
  if (const pid_t process = entry.process; process != 0 && process != getpid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this process was forked from one that has port ", place.key,
                     "; create the CLIENT or the service in a program that it starts"));
  }
  const std::lock_guard<std::mutex> entry_lock(entry.mutex);
  if (entry.node != nullptr) {
    if (entry.options != parsed.port_text) {
      return absl::InvalidArgumentError(absl::StrCat(
          "port ", place.key, " is open in this process with other options: ", entry.options));
    }
  } else {
    auto node = StartNode(parsed.port, Cores::kOneShared);
    if (!node.ok()) return node.status();
    entry.options = parsed.port_text;
    entry.node = *std::move(node);
    entry.process = getpid();
  }
  ++entry.users;
  place.node = {entry.node.get(), [&entry](Node* /*node*/) { Release(entry); }};
  return place;
}

}  // namespace pollux::tools
