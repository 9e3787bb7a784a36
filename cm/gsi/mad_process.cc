#include "cm/gsi/mad_process.h"

#include <cstddef>
#include <optional>

#include "cm/gsi/shard.h"
#include "cm/wire/mad.h"
#include "stack/base/byte_order.h"

namespace pollux::cm {
namespace {

constexpr size_t kServiceId = kMadHeaderBytes + 8;  // of a REQ and of a SIDR_REQ

}  // namespace

bool IsForThisProcess(std::span<const uint8_t> mad, kernel::InterfaceClaims& claims,
                      uint64_t now_ns) {
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  if (!header || header->management_class != kMadClassCm) return claims.AnswersUnclaimed(now_ns);
  // Only the process that answers unclaimed messages asks the kernel whether this one is.
  if (header->attribute == Attribute::kReq || header->attribute == Attribute::kSidrReq) {
    const uint64_t service = LoadBe64(&mad[kServiceId]);
    return claims.TakesService(service) ||
           (claims.AnswersUnclaimed(now_ns) && !claims.OtherTakesService(service));
  }
  const uint32_t id = ReceiversId(*header, mad);
  // It names the connection by the CA GUID.
  if (header->attribute == Attribute::kRej && id == 0) return true;
  const uint8_t process = Shard::ProcessOf(id);
  return claims.HasProcessId(process) ||
         (claims.AnswersUnclaimed(now_ns) && !claims.AnyHasProcessId(process));
}

}  // namespace pollux::cm
