#include "tools/decode/names.h"

#include <arpa/inet.h>

#include <array>
#include <iterator>

#include "absl/strings/str_format.h"
#include "stack/wire/bth.h"

namespace pollux::decode {
namespace {

template <size_t kCount>
std::string NameIn(const char* const (&names)[kCount], size_t number) {
  return number < kCount && names[number] != nullptr ? names[number] : "?";
}

}  // namespace

std::string OpcodeName(uint8_t opcode) {
  const wire::OpcodeInfo* const info = wire::FindOpcode(opcode);
  return info == nullptr ? "?" : info->name;
}

std::string RpcProcedureName(uint32_t procedure) {
  static constexpr const char* kNames[] = {"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE",
                                           "RDMA_ERROR"};
  return NameIn(kNames, procedure);
}

std::string SidrStatusName(uint8_t status) {
  static constexpr const char* kNames[] = {"valid",    "service ID not supported",
                                           "rejected", "no queue pair",
                                           "redirect", "class version not supported"};
  return NameIn(kNames, status);
}

std::string AprStatusName(uint8_t status) {
  static constexpr const char* kNames[] = {
      "loaded",          "invalid communication ID", "unsupported", "rejected",   "redirect",
      "is current path", "invalid QPN or EECN",      "invalid LID", "invalid GID"};
  return NameIn(kNames, status);
}

std::string AboutMessageName(uint8_t message, const char* other) {
  const std::array<const char*, 4> names = {"REQ", "REP", other, "?"};
  return names[message & 3];
}

std::string AddressText(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.IsIpv4()) {
    inet_ntop(AF_INET, gid.raw.data() + 12, text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.raw.data(), text.data(), text.size());
  }
  return text.data();
}

std::string MacText(const MacAddress& mac) {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                         mac[5]);
}

}  // namespace pollux::decode
