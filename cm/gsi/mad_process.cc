#include "cm/gsi/mad_process.h"

#include <cstddef>
#include <optional>

#include "cm/gsi/shard.h"
#include "cm/wire/mad.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {
namespace {

using Owner = kernel::InterfaceClaims::Owner;

constexpr size_t kServiceId = kMadHeaderBytes + 8;  // of a REQ and of a SIDR_REQ
Owner OwnerOf(const MadHeader& header, std::span<const uint8_t> mad,
              kernel::InterfaceClaims& claims) {
  switch (header.attribute) {
    case Attribute::kReq:
    case Attribute::kSidrReq:
      return claims.OwnerOfService(LoadBe64(&mad[kServiceId]));
    default:
      break;
  }
  const uint32_t id = ReceiversId(header, mad);
  // It names the connection by the CA GUID.
  if (header.attribute == Attribute::kRej && id == 0) return Owner::kThisProcess;
  return claims.OwnerOfProcessId(Shard::ProcessOf(id));
}

}  // namespace

bool IsForThisProcess(std::span<const uint8_t> mad, kernel::InterfaceClaims& claims) {
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  const bool is_cm = header && header->management_class == kMadClassCm;
  switch (is_cm ? OwnerOf(*header, mad, claims) : Owner::kNobody) {
    case Owner::kThisProcess:
      return true;
    case Owner::kOtherProcess:
      return false;
    case Owner::kNobody:
      return claims.AnswersForNobody();
  }
  return false;
}

}  // namespace pollux::cm
