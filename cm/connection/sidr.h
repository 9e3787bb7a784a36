// Service ID resolution (SIDR): one request and one reply, which names a UD queue pair. Source: IB
// specification volume 1, section 12.11; options that it leaves open are chosen as in Linux.
#ifndef POLLUX_CM_CONNECTION_SIDR_H_
#define POLLUX_CM_CONNECTION_SIDR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cm/connection/parts.h"
#include "cm/wire/reasons.h"

namespace pollux::cm {

// For identifiers of RDMA_PS_UDP. Owned by the manager, on its core.
class Sidr {
 public:
  explicit Sidr(Parts* parts) : parts_(*parts), context_(parts->context) {}

  absl::Status Connect(CmConnection& connection, const ConnectionParam& param);
  absl::Status Accept(CmConnection& connection, const ConnectionParam& param);
  absl::Status Reply(CmConnection& connection, SidrStatus status, uint32_t qpn,
                     absl::Span<const uint8_t> private_data);
  void Handle(const Origin& origin, const SidrReq& req);
  void Handle(const Origin& origin, const SidrRep& rep);

 private:
  // Replies without creating a connection.
  void ReplyAtOnce(const Origin& origin, const SidrReq& req, SidrStatus status);

  Parts& parts_;
  Context& context_;
};

}  // namespace pollux::cm

#endif  // POLLUX_CM_CONNECTION_SIDR_H_
