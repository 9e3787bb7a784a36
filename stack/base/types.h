// Strong types for the numbers in RoCE packets, so that a PSN cannot be passed for a QPN.
#ifndef POLLUX_STACK_BASE_TYPES_H_
#define POLLUX_STACK_BASE_TYPES_H_

#include <array>
#include <compare>
#include <cstdint>

namespace pollux {

// A queue pair number: 24 bits. Source: IB specification, BTH destination QP.
struct Qpn {
  uint32_t value = 0;
  friend constexpr auto operator<=>(Qpn, Qpn) = default;
};

inline constexpr Qpn kGsiQpn{1};               // general services (CM MADs)
inline constexpr Qpn kMulticastQpn{0xFFFFFF};  // destination of every multicast packet

// The Q_Key of every GSI queue pair. Source: IB specification, sections 10.2.5 and 16.4.
inline constexpr uint32_t kGsiQkey = 0x80010000;

// A packet sequence number: 24 bits, arithmetic modulo 2^24. PSNs have no total order. The sign of
// Distance() tells which of two PSNs comes first, within a window of 2^23.
class Psn {
 public:
  static constexpr uint32_t kMask = 0xFFFFFF;
  static constexpr uint32_t kWindow = 1u << 23;  // PSNs outstanding must span less than this

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  constexpr uint32_t value() const { return value_; }
  friend constexpr bool operator==(Psn, Psn) = default;
  friend constexpr Psn operator+(Psn psn, uint32_t n) { return Psn(psn.value_ + n); }
  friend constexpr Psn operator-(Psn psn, uint32_t n) { return Psn(psn.value_ - n); }
  constexpr Psn& operator+=(uint32_t n) { return *this = *this + n; }

  // `to` - `from`, in [-2^23, 2^23): negative when `to` comes before `from`.
  friend constexpr int32_t Distance(Psn from, Psn to) {
    return static_cast<int32_t>((to.value_ - from.value_) << 8) >> 8;
  }
  friend constexpr bool Before(Psn a, Psn b) { return Distance(b, a) < 0; }

 private:
  uint32_t value_ = 0;
};

using MacAddress = std::array<uint8_t, 6>;

// An IP address in the form of a GID, in network byte order: an IPv6 address, or ::ffff:a.b.c.d for
// IPv4. Bitwise equal to ibv_gid::raw.
struct Gid {
  std::array<uint8_t, 16> raw{};
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;

  static constexpr Gid FromIpv4(uint32_t host_order) {
    Gid gid;
    gid.raw[10] = gid.raw[11] = 0xFF;
    for (int i = 0; i < 4; ++i) gid.raw[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
    return gid;
  }
  constexpr bool IsIpv4() const {
    for (int i = 0; i < 10; ++i) {
      if (raw[i] != 0) return false;
    }
    return raw[10] == 0xFF && raw[11] == 0xFF;
  }
  // 224.0.0.0/4 or ff00::/8.
  constexpr bool IsMulticast() const { return IsIpv4() ? raw[12] >> 4 == 0xE : raw[0] == 0xFF; }
  // fe80::/10. Such an address is meaningful only together with its link.
  constexpr bool IsLinkLocal() const { return raw[0] == 0xFE && (raw[1] & 0xC0) == 0x80; }
  // ::, which is no host's address. It marks an empty entry of a GID table.
  constexpr bool IsZero() const { return *this == Gid{}; }
  // The IPv4 address in host byte order. Valid only if IsIpv4().
  constexpr uint32_t Ipv4() const {
    return static_cast<uint32_t>(raw[12]) << 24 | static_cast<uint32_t>(raw[13]) << 16 |
           static_cast<uint32_t>(raw[14]) << 8 | raw[15];
  }
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_TYPES_H_
