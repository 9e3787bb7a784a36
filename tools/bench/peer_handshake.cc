#include "tools/bench/peer_handshake.h"

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kMagic = 0x706C7862;  // "plxb"

void Put(uint64_t value, int bytes, uint8_t* to) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(value >> 8 * (bytes - 1 - i));
}

uint64_t Get(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | from[i];
  return value;
}

}  // namespace

std::array<uint8_t, PeerHandshake::kBytes> PeerHandshake::Encode() const {
  std::array<uint8_t, kBytes> bytes;
  Put(kMagic, 4, &bytes[0]);
  Put(kVersion, 4, &bytes[4]);
  Put(key, 4, &bytes[8]);
  Put(length, 4, &bytes[12]);
  Put(address, 8, &bytes[16]);
  return bytes;
}

absl::StatusOr<PeerHandshake> PeerHandshake::Parse(absl::Span<const uint8_t> private_data) {
  if (private_data.size() < kBytes || Get(&private_data[0], 4) != kMagic) {
    return absl::FailedPreconditionError(
        "the server there is not `pollux bench --server`; check --verbs-port");
  }
  if (const uint64_t version = Get(&private_data[4], 4); version != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the server uses version ", version, " of the measurements, this client version ", kVersion,
        "; use the same pollux at both ends"));
  }
  PeerHandshake handshake;
  handshake.key = static_cast<uint32_t>(Get(&private_data[8], 4));
  handshake.length = static_cast<uint32_t>(Get(&private_data[12], 4));
  handshake.address = Get(&private_data[16], 8);
  return handshake;
}

}  // namespace pollux::tools
