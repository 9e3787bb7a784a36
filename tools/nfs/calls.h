// Blocking NFS calls for the main thread.
#ifndef POLLUX_TOOLS_NFS_CALLS_H_
#define POLLUX_TOOLS_NFS_CALLS_H_

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nfs/client/client.h"
#include "nfs/v3/status.h"
#include "tools/common/await.h"
#include "tools/common/node.h"

namespace pollux::tools {

// The result of a call: `stat` is set if the server has replied, and `value` if the status is
// NFS3_OK.
template <class T>
struct CallOutcome {
  absl::Status status;
  std::optional<nfs::Nfsstat3> stat;
  std::optional<T> value;
};

// A server: its client and the node on which that runs.
struct NfsServer {
  Node& node;
  nfs::Client& client;
};

// Makes a call. `take` is called on the client's core while the results are valid, and its return
// value becomes `value` of the result. Error messages begin with `what`.
template <class Res, class Args, class Take>
auto Ask(const NfsServer& server, nfs::Procedure procedure, const Args& arguments,
         const nfs::Client::Room& room, const std::string& what, Take take) {
  using T = std::invoke_result_t<Take, const Res&>;
  return Blocking<CallOutcome<T>>(server.node, server.client, [&](auto done) {
    server.client.Call<Res>(
        procedure, arguments, room,
        [done = std::move(done), take, what](absl::Status status, const Res* results) mutable {
          CallOutcome<T> outcome;
          if (!status.ok()) {
            outcome.status =
                absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
          } else {
            outcome.stat = results->status;
            outcome.status = nfs::ToStatus(results->status, what);
            if (outcome.status.ok()) outcome.value.emplace(take(*results));
          }
          done(std::move(outcome));
        });
  });
}

template <class T>
CallOutcome<T> InterruptedOr(CallOutcome<T> outcome) {
  outcome.status = InterruptedOr(std::move(outcome.status));
  return outcome;
}

// The value of calls for which only the status matters.
struct Nothing {};
template <class Res, class Args>
CallOutcome<Nothing> Ask(const NfsServer& server, nfs::Procedure procedure, const Args& arguments,
                         const std::string& what) {
  return Ask<Res>(server, procedure, arguments, {}, what, [](const Res&) { return Nothing(); });
}

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_NFS_CALLS_H_
