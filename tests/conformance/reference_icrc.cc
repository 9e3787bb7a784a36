#include "tests/conformance/reference_icrc.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

namespace pollux::conformance {
namespace {

constexpr size_t kIcrc = 4;
constexpr size_t kBth = 12;

// The packet from its IP header (or GRH) to the last byte before the ICRC, masked; and the ICRC.
struct Masked {
  std::vector<uint8_t> bytes;
  std::span<const uint8_t> icrc;
};

std::optional<Masked> CutOut(std::span<const uint8_t> l3, size_t packet_bytes) {
  if (packet_bytes > l3.size() || packet_bytes < kIcrc) return std::nullopt;
  Masked masked;
  masked.bytes.assign(l3.begin(), l3.begin() + static_cast<long>(packet_bytes - kIcrc));
  masked.icrc = l3.subspan(packet_bytes - kIcrc, kIcrc);
  return masked;
}

std::optional<Masked> MaskIpv4(std::span<const uint8_t> l3) {
  if (l3.size() < 20 + 8 + kBth + kIcrc || l3[0] != 0x45 || l3[9] != 17) return std::nullopt;
  if (l3[22] != 0x12 || l3[23] != 0xB7) return std::nullopt;
  auto masked = CutOut(l3, static_cast<size_t>(l3[2]) << 8 | l3[3]);
  if (!masked || masked->bytes.size() < 20 + 8 + kBth) return std::nullopt;
  for (size_t at : {1, 8, 10, 11, 20 + 6, 20 + 7, 20 + 8 + 4}) masked->bytes[at] = 0xFF;
  return masked;
}

// IPv6, and the GRH of RoCEv1, which has its layout but no UDP header after it.
std::optional<Masked> MaskIpv6(std::span<const uint8_t> l3, bool version_one) {
  const size_t bth = version_one ? 40 : 48;
  if (l3.size() < bth + kBth + kIcrc || l3[0] >> 4 != 6) return std::nullopt;
  if (l3[6] != (version_one ? 0x1B : 17)) return std::nullopt;
  if (!version_one && (l3[42] != 0x12 || l3[43] != 0xB7)) return std::nullopt;
  auto masked = CutOut(l3, 40 + (static_cast<size_t>(l3[4]) << 8 | l3[5]));
  if (!masked || masked->bytes.size() < bth + kBth) return std::nullopt;
  masked->bytes[0] |= 0x0F;
  for (size_t at : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, bth + 4}) masked->bytes[at] = 0xFF;
  if (!version_one) masked->bytes[46] = masked->bytes[47] = 0xFF;
  return masked;
}

std::optional<Masked> Mask(std::span<const uint8_t> frame) {
  size_t type_at = 12;
  if (frame.size() < 18) return std::nullopt;
  if (frame[12] == 0x81 && frame[13] == 0x00) type_at = 16;
  const unsigned type = static_cast<unsigned>(frame[type_at]) << 8 | frame[type_at + 1];
  const auto l3 = frame.subspan(type_at + 2);
  if (type == 0x0800) return MaskIpv4(l3);
  if (type == 0x86DD) return MaskIpv6(l3, false);
  if (type == 0x8915) return MaskIpv6(l3, true);
  return std::nullopt;
}

std::array<uint8_t, kIcrc> Sum(const Masked& masked) {
  const std::array<uint8_t, 8> lrh = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  uLong crc = crc32(0, nullptr, 0);
  crc = crc32(crc, lrh.data(), lrh.size());
  crc = crc32(crc, masked.bytes.data(), static_cast<uInt>(masked.bytes.size()));
  return {static_cast<uint8_t>(crc), static_cast<uint8_t>(crc >> 8),
          static_cast<uint8_t>(crc >> 16), static_cast<uint8_t>(crc >> 24)};
}

}  // namespace

std::optional<std::array<uint8_t, kIcrc>> ReferenceIcrc(std::span<const uint8_t> frame) {
  const auto masked = Mask(frame);
  if (!masked) return std::nullopt;
  return Sum(*masked);
}

bool ReferenceIcrcIsValid(std::span<const uint8_t> frame) {
  const auto masked = Mask(frame);
  if (!masked) return false;
  const auto sum = Sum(*masked);
  return std::equal(sum.begin(), sum.end(), masked->icrc.begin());
}

}  // namespace pollux::conformance
