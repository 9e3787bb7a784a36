#include "rpcrdma/wire/private_data.h"

#include <algorithm>

#include "stack/base/byte_order.h"

namespace pollux::rpcrdma {
namespace {

constexpr uint32_t kFormatIdentifier = 0xF6AB0E18;  // RFC 8797 section 4
constexpr uint8_t kFormatVersion = 1;
constexpr uint8_t kFlagRemoteInvalidation = 0x01;

// RFC 8797 section 4.2
uint8_t EncodeSize(uint32_t bytes) {
  return static_cast<uint8_t>(std::clamp(bytes, kMinInlineBytes, kMaxInlineBytes) / 1024 - 1);
}
uint32_t DecodeSize(uint8_t code) { return (code + 1u) * 1024; }

}  // namespace

std::array<uint8_t, kPrivateDataBytes> EncodePrivateData(const PrivateData& data) {
  std::array<uint8_t, kPrivateDataBytes> bytes{};
  StoreBe32(bytes.data(), kFormatIdentifier);
  bytes[4] = kFormatVersion;
  bytes[5] = data.remote_invalidation ? kFlagRemoteInvalidation : 0;
  bytes[6] = EncodeSize(data.send_bytes);
  bytes[7] = EncodeSize(data.receive_bytes);
  return bytes;
}

std::optional<PrivateData> FindPrivateData(absl::Span<const uint8_t> bytes, size_t from) {
  // RFC 8797 section 5.2
  for (size_t at = from; at + kPrivateDataBytes <= bytes.size(); ++at) {
    const uint8_t* p = bytes.data() + at;
    if (LoadBe32(p) != kFormatIdentifier || p[4] != kFormatVersion) continue;
    return PrivateData{.remote_invalidation = (p[5] & kFlagRemoteInvalidation) != 0,
                       .send_bytes = DecodeSize(p[6]),
                       .receive_bytes = DecodeSize(p[7])};
  }
  return std::nullopt;
}

InlineThresholds NegotiateThresholds(const PrivateData& client, const PrivateData& server) {
  return {.client_to_server = std::min(client.send_bytes, server.receive_bytes),
          .server_to_client = std::min(server.send_bytes, client.receive_bytes)};
}

}  // namespace pollux::rpcrdma
