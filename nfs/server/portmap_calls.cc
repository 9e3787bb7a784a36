#include "nfs/server/portmap_calls.h"

#include <netinet/in.h>

#include <algorithm>
#include <list>

#include "absl/strings/str_cat.h"
#include "rpcrdma/universal_address.h"

namespace pollux::nfs {
namespace {

using rpcrdma::AcceptStatus;

constexpr char kOwner[] = "superuser";

}  // namespace

void PortmapCalls::Serve(ControlCall call) const {
  switch (static_cast<PortmapProcedure>(call.procedure())) {
    case PortmapProcedure::kNull:
      return call.Answer(Void());
    case PortmapProcedure::kSet:
    case PortmapProcedure::kUnset:
      return call.Answer(SetRes{.done = false});
    case PortmapProcedure::kGetport:
      return call.version() == kPortmapV2 ? Getport(std::move(call)) : Getaddr(std::move(call));
    case PortmapProcedure::kDump:
      return Dump(std::move(call));
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

const PortmapCalls::Service* PortmapCalls::Find(uint32_t program, uint32_t version,
                                                bool rdma) const {
  const auto found = std::ranges::find_if(services_, [&](const Service& service) {
    return service.program == program && service.version == version && service.rdma == rdma;
  });
  return found == services_.end() ? nullptr : &*found;
}

void PortmapCalls::Getport(ControlCall call) const {
  Mapping asked;
  if (!call.Read(&asked)) return call.Fail(AcceptStatus::kGarbageArguments);
  const Service* service =
      asked.prot == IPPROTO_TCP ? Find(asked.prog, asked.vers, /*rdma=*/false) : nullptr;
  call.Answer(GetportRes{service == nullptr ? 0u : service->port});
}

void PortmapCalls::Getaddr(ControlCall call) const {
  Rpcb asked;
  if (!call.Read(&asked)) return call.Fail(AcceptStatus::kGarbageArguments);
  const bool rdma = asked.r_netid.text.substr(0, 4) == "rdma";
  const Service* service = Find(asked.r_prog, asked.r_vers, rdma);
  std::string address;
  if (service != nullptr) {
    address = rpcrdma::UniversalAddress({.address = call.server(), .port = service->port});
  }
  call.Answer(GetaddrRes{{address}});
}

void PortmapCalls::Dump(ControlCall call) const {
  Pmaplist ports;
  Rpcblist services;
  std::list<std::string> texts;
  for (const Service& service : services_) {
    if (!service.rdma) {
      ports.items.push_back({service.program, service.version, IPPROTO_TCP, service.port});
    }
    for (const char* any : {"0.0.0.0", "::"}) {
      const char* version = absl::string_view(any) == "::" ? "6" : "";
      const std::string& netid =
          texts.emplace_back(absl::StrCat(service.rdma ? "rdma" : "tcp", version));
      const std::string& address =
          texts.emplace_back(absl::StrCat(any, ".", service.port >> 8, ".", service.port & 0xFF));
      services.items.push_back({service.program, service.version, {netid}, {address}, {kOwner}});
    }
  }
  if (call.version() == kPortmapV2) return call.Answer(ports);
  call.Answer(services);
}

}  // namespace pollux::nfs
