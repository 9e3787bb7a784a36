#include "nfs/lock/status_calls.h"

namespace pollux::nfs {

using oncrpc::AcceptStatus;

void StatusCalls::Serve(oncrpc::ServiceCall call) const {
  StatChge change;
  switch (static_cast<NsmProcedure>(call.procedure())) {
    case NsmProcedure::kNull:
      return call.Reply(oncrpc::Void());
    case NsmProcedure::kNotify:
      if (!call.Read(&change)) return call.Fail(AcceptStatus::kGarbageArguments);
      if (restarted_(call.client(), change.state,
                     call.connected() ? std::nullopt
                                      : std::optional<std::string_view>(change.mon_name.text))) {
        call.Reply(oncrpc::Void());
      }
      return;
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

}  // namespace pollux::nfs
