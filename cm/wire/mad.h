// Communication management MADs: the 256-byte datagrams of queue pair 1. Every bit of every message
// has a field here, including reserved ones, so parsing and emitting are exact inverses on any
// bytes. "Code" marks times in units of 4.096 us * 2^n. Source: IB specification volume 1, chapters
// 12 and 13.
#ifndef POLLUX_CM_WIRE_MAD_H_
#define POLLUX_CM_WIRE_MAD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "cm/wire/reasons.h"
#include "stack/base/types.h"

namespace pollux::cm {

inline constexpr size_t kMadBytes = 256;
inline constexpr size_t kMadHeaderBytes = 24;
inline constexpr size_t kMadBodyBytes = kMadBytes - kMadHeaderBytes;

using MadBuffer = std::array<uint8_t, kMadBytes>;

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr uint8_t kMadClassCm = 0x07;
inline constexpr uint8_t kMadClassVersionCm = 2;
inline constexpr uint8_t kMadMethodSend = 0x03;

enum class Attribute : uint16_t {
  kClassPortInfo = 0x0001,
  kReq = 0x0010,
  kMra = 0x0011,
  kRej = 0x0012,
  kRep = 0x0013,
  kRtu = 0x0014,
  kDreq = 0x0015,
  kDrep = 0x0016,
  kSidrReq = 0x0017,
  kSidrRep = 0x0018,
  kLap = 0x0019,
  kApr = 0x001A,
};
// For example "REQ"; "attribute?" for an unknown one.
std::string_view AttributeName(Attribute attribute);

struct MadHeader {
  uint8_t base_version = kMadBaseVersion;
  uint8_t management_class = kMadClassCm;
  uint8_t class_version = kMadClassVersionCm;
  uint8_t method = kMadMethodSend;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction_id = 0;
  Attribute attribute = Attribute::kReq;
  uint16_t reserved = 0;
  uint32_t attribute_modifier = 0;  // newer Linux kernels put ECE options here in a REQ and REP
};

// The message that a REJ or MRA refers to.
enum class AboutMessage : uint8_t { kReq = 0, kRep = 1, kOther = 2 };

template <size_t kBytes>
using Bytes = std::array<uint8_t, kBytes>;

// One path of a REQ, at offset 52 (primary) or 96 (alternate).
struct ReqPath {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local_gid;
  Gid remote_gid;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t reserved1 = 0;    // 6 bits
  uint8_t packet_rate = 0;  // 6 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;  // 4 bits
  uint8_t subnet_local = 0;   // 1 bit
  uint8_t reserved2 = 0;      // 3 bits
  uint8_t ack_timeout = 0;    // 5 bits, code
  uint8_t reserved3 = 0;      // 3 bits
};

struct Req {
  static constexpr Attribute kAttribute = Attribute::kReq;
  static constexpr size_t kPrivateBytes = 92;
  uint32_t local_comm_id = 0;
  uint8_t reserved1 = 0;
  uint32_t vendor_id = 0;  // 24 bits
  uint64_t service_id = 0;
  uint64_t local_ca_guid = 0;
  uint32_t reserved2 = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;  // 24 bits
  uint8_t responder_resources = 0;
  uint32_t local_eecn = 0;  // 24 bits
  uint8_t initiator_depth = 0;
  uint32_t remote_eecn = 0;                // 24 bits
  uint8_t remote_cm_response_timeout = 0;  // 5 bits, code
  uint8_t transport_type = 0;              // 2 bits: 0 RC, 1 UC, 2 RD, 3 extended
  uint8_t flow_control = 0;                // 1 bit
  uint32_t starting_psn = 0;  // 24 bits: the first PSN that the receiver of this REQ sends
  uint8_t local_cm_response_timeout = 0;  // 5 bits, code
  uint8_t retry_count = 0;                // 3 bits
  uint16_t pkey = 0xFFFF;
  uint8_t path_mtu = 0;                 // 4 bits, ibv_mtu
  uint8_t rdc_exists = 0;               // 1 bit
  uint8_t rnr_retry_count = 0;          // 3 bits
  uint8_t max_cm_retries = 0;           // 4 bits
  uint8_t srq = 0;                      // 1 bit
  uint8_t extended_transport_type = 0;  // 3 bits
  ReqPath primary;
  ReqPath alternate;
  Bytes<kPrivateBytes> private_data{};
};

struct Rep {
  static constexpr Attribute kAttribute = Attribute::kRep;
  static constexpr size_t kPrivateBytes = 196;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t local_qkey = 0;
  uint32_t local_qpn = 0;  // 24 bits
  uint8_t vendor_id_high = 0;
  uint32_t local_eecn = 0;  // 24 bits
  uint8_t vendor_id_middle = 0;
  uint32_t starting_psn = 0;  // 24 bits: the first PSN that the receiver of this REP sends
  uint8_t vendor_id_low = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t target_ack_delay = 0;   // 5 bits, code
  uint8_t failover_accepted = 0;  // 2 bits
  uint8_t flow_control = 0;       // 1 bit
  uint8_t rnr_retry_count = 0;    // 3 bits
  uint8_t srq = 0;                // 1 bit
  uint8_t reserved = 0;           // 4 bits
  uint64_t local_ca_guid = 0;
  Bytes<kPrivateBytes> private_data{};
};

struct Rtu {
  static constexpr Attribute kAttribute = Attribute::kRtu;
  static constexpr size_t kPrivateBytes = 224;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Bytes<kPrivateBytes> private_data{};
};

struct Rej {
  static constexpr Attribute kAttribute = Attribute::kRej;
  static constexpr size_t kPrivateBytes = 148;
  static constexpr size_t kAriBytes = 72;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t message_rejected = 0;    // 2 bits, AboutMessage
  uint8_t reserved1 = 0;           // 6 bits
  uint8_t reject_info_length = 0;  // 7 bits: valid bytes of `ari`
  uint8_t reserved2 = 0;           // 1 bit
  uint16_t reason = 0;             // RejectReason
  Bytes<kAriBytes> ari{};          // additional reject information
  Bytes<kPrivateBytes> private_data{};
};

struct Mra {
  static constexpr Attribute kAttribute = Attribute::kMra;
  static constexpr size_t kPrivateBytes = 222;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t message_mraed = 0;    // 2 bits, AboutMessage
  uint8_t reserved1 = 0;        // 6 bits
  uint8_t service_timeout = 0;  // 5 bits, code
  uint8_t reserved2 = 0;        // 3 bits
  Bytes<kPrivateBytes> private_data{};
};

struct Dreq {
  static constexpr Attribute kAttribute = Attribute::kDreq;
  static constexpr size_t kPrivateBytes = 220;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t remote_qpn = 0;  // 24 bits
  uint8_t reserved = 0;
  Bytes<kPrivateBytes> private_data{};
};

struct Drep {
  static constexpr Attribute kAttribute = Attribute::kDrep;
  static constexpr size_t kPrivateBytes = 224;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  Bytes<kPrivateBytes> private_data{};
};

struct SidrReq {
  static constexpr Attribute kAttribute = Attribute::kSidrReq;
  static constexpr size_t kPrivateBytes = 216;
  uint32_t request_id = 0;
  uint16_t pkey = 0xFFFF;
  uint16_t reserved = 0;
  uint64_t service_id = 0;
  Bytes<kPrivateBytes> private_data{};
};

struct SidrRep {
  static constexpr Attribute kAttribute = Attribute::kSidrRep;
  static constexpr size_t kPrivateBytes = 136;
  uint32_t request_id = 0;
  uint8_t status = 0;  // SidrStatus
  uint8_t info_length = 0;
  uint16_t reserved = 0;
  uint32_t qpn = 0;  // 24 bits
  uint8_t vendor_id = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  Bytes<72> info{};
  Bytes<kPrivateBytes> private_data{};
};

struct Lap {
  static constexpr Attribute kAttribute = Attribute::kLap;
  static constexpr size_t kPrivateBytes = 168;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint32_t reserved1 = 0;
  uint32_t remote_qpn = 0;                 // 24 bits
  uint8_t remote_cm_response_timeout = 0;  // 5 bits, code
  uint8_t reserved2 = 0;                   // 3 bits
  uint32_t reserved3 = 0;
  uint16_t alternate_local_lid = 0;
  uint16_t alternate_remote_lid = 0;
  Gid alternate_local_gid;
  Gid alternate_remote_gid;
  uint32_t flow_label = 0;  // 20 bits
  uint8_t reserved4 = 0;    // 4 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t reserved5 = 0;      // 2 bits
  uint8_t packet_rate = 0;    // 6 bits
  uint8_t service_level = 0;  // 4 bits
  uint8_t subnet_local = 0;   // 1 bit
  uint8_t reserved6 = 0;      // 3 bits
  uint8_t ack_timeout = 0;    // 5 bits, code
  uint8_t reserved7 = 0;      // 3 bits
  Bytes<kPrivateBytes> private_data{};
};

inline constexpr uint8_t kAprStatusInvalidCommId = 1;
inline constexpr uint8_t kAprStatusUnsupported = 2;

struct Apr {
  static constexpr Attribute kAttribute = Attribute::kApr;
  static constexpr size_t kPrivateBytes = 148;
  uint32_t local_comm_id = 0;
  uint32_t remote_comm_id = 0;
  uint8_t info_length = 0;
  uint8_t ap_status = 0;
  uint16_t reserved = 0;
  Bytes<72> info{};
  Bytes<kPrivateBytes> private_data{};
};

using Message = std::variant<Req, Rep, Rtu, Rej, Mra, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

struct Mad {
  MadHeader header;
  Message message;
};

// Parses only the header; returns nothing if `mad` is not exactly 256 bytes. The caller checks
// whether the MAD is CM's (base version, class, class version, method).
std::optional<MadHeader> ParseMadHeader(std::span<const uint8_t> mad);

// Parses the whole MAD. Returns nothing if it is not exactly 256 bytes, if base version, class or
// class version is not 1, 7 and 2, or if Message has no alternative for the attribute.
std::optional<Mad> ParseMad(std::span<const uint8_t> mad);

// Writes all 256 bytes. The attribute comes from the message, not from `header.attribute`.
void EmitMad(const MadHeader& header, const Message& message, std::span<uint8_t, kMadBytes> out);
inline void EmitMad(const Mad& mad, std::span<uint8_t, kMadBytes> out) {
  EmitMad(mad.header, mad.message, out);
}

}  // namespace pollux::cm

#endif  // POLLUX_CM_WIRE_MAD_H_
