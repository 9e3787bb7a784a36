#include "rpcrdma/connection/settings.h"

#include "absl/strings/str_format.h"
#include "rpcrdma/wire/private_data.h"

namespace pollux::rpcrdma {

absl::Status CheckSettings(uint32_t credits, uint32_t reverse_credits, uint32_t send_bytes,
                           uint32_t receive_bytes) {
  for (const uint32_t asked : {credits, reverse_credits}) {
    if (asked == 0 || asked > kMaxCredits) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%d credits requested; 1 to %d are possible", asked, kMaxCredits));
    }
  }
  for (const uint32_t bytes : {send_bytes, receive_bytes}) {
    if (bytes < kMinInlineBytes || bytes > kMaxInlineBytes || bytes % 1024 != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("an inline size of %d bytes was requested; it must be a multiple of "
                          "1024 between %d and %d",
                          bytes, kMinInlineBytes, kMaxInlineBytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace pollux::rpcrdma
