#include "oncrpc/portmap_calls.h"

#include <netinet/in.h>

#include <algorithm>
#include <list>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "oncrpc/universal_address.h"

namespace pollux::oncrpc {
namespace {

using Transport = PortmapCalls::Transport;

constexpr char kOwner[] = "superuser";

// Of IPv4; a 6 behind it makes it that of IPv6.
constexpr std::string_view NetidOf(Transport transport) {
  return transport == Transport::kTcp ? "tcp" : transport == Transport::kUdp ? "udp" : "rdma";
}
constexpr uint32_t ProtocolOf(Transport transport) {
  return transport == Transport::kTcp ? IPPROTO_TCP : IPPROTO_UDP;
}

}  // namespace

void PortmapCalls::Serve(ServiceCall call) const {
  switch (static_cast<PortmapProcedure>(call.procedure())) {
    case PortmapProcedure::kNull:
      return call.Reply(Void());
    case PortmapProcedure::kSet:
    case PortmapProcedure::kUnset:
      return call.Reply(SetRes{.done = false});
    case PortmapProcedure::kGetport:
      return call.version() == kPortmapV2 ? Getport(std::move(call)) : Getaddr(std::move(call));
    case PortmapProcedure::kDump:
      return Dump(std::move(call));
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

const PortmapCalls::Service* PortmapCalls::Find(uint32_t program, uint32_t version,
                                                Transport transport) const {
  const auto found = std::ranges::find_if(services_, [&](const Service& service) {
    return service.program == program && service.version == version &&
           service.transport == transport;
  });
  return found == services_.end() ? nullptr : &*found;
}

void PortmapCalls::Getport(ServiceCall call) const {
  Mapping asked;
  if (!call.Read(&asked)) return call.Fail(AcceptStatus::kGarbageArguments);
  const Service* service = nullptr;
  for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
    if (asked.prot == ProtocolOf(transport)) service = Find(asked.prog, asked.vers, transport);
  }
  call.Reply(GetportRes{service == nullptr ? 0u : service->port});
}

void PortmapCalls::Getaddr(ServiceCall call) const {
  Rpcb asked;
  if (!call.Read(&asked)) return call.Fail(AcceptStatus::kGarbageArguments);
  const Service* service = nullptr;
  for (const Transport transport : {Transport::kTcp, Transport::kUdp, Transport::kRdma}) {
    if (asked.r_netid.text.starts_with(NetidOf(transport))) {
      service = Find(asked.r_prog, asked.r_vers, transport);
    }
  }
  std::string address;
  if (service != nullptr) {
    address = UniversalAddress({.address = call.server(), .port = service->port});
  }
  call.Reply(GetaddrRes{{address}});
}

void PortmapCalls::Dump(ServiceCall call) const {
  Pmaplist ports;
  Rpcblist services;
  std::list<std::string> texts;
  for (const Service& service : services_) {
    if (service.transport != Transport::kRdma) {
      ports.items.push_back(
          {service.program, service.version, ProtocolOf(service.transport), service.port});
    }
    for (const char* any : {"0.0.0.0", "::"}) {
      const char* version = absl::string_view(any) == "::" ? "6" : "";
      const std::string& netid =
          texts.emplace_back(absl::StrCat(NetidOf(service.transport).data(), version));
      const std::string& address =
          texts.emplace_back(absl::StrCat(any, ".", service.port >> 8, ".", service.port & 0xFF));
      services.items.push_back({service.program, service.version, {netid}, {address}, {kOwner}});
    }
  }
  if (call.version() == kPortmapV2) return call.Reply(ports, call.list_bytes());
  call.Reply(services, call.list_bytes());
}

}  // namespace pollux::oncrpc
