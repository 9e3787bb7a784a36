#include "cm/wire/mad.h"

#include <algorithm>
#include <cassert>
#include <type_traits>

namespace pollux::cm {
namespace {

// Reads fields from the most significant bit on. Never past the end: Fields() of every message adds
// up to its size, which the tests assert through position().
class BitReader {
 public:
  static constexpr bool kReading = true;
  explicit BitReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <class T>
  void Bits(T& field, unsigned count) {
    uint64_t value = 0;
    for (; count > 0;) {
      const unsigned in_byte = 8 - position_ % 8;
      const unsigned take = std::min(in_byte, count);
      const unsigned byte = bytes_[position_ / 8];
      value = value << take | ((byte >> (in_byte - take)) & ((1u << take) - 1));
      position_ += take;
      count -= take;
    }
    field = static_cast<T>(value);
  }
  template <size_t kSize>
  void Raw(std::array<uint8_t, kSize>& field) {
    std::copy_n(bytes_.data() + position_ / 8, kSize, field.data());
    position_ += 8 * kSize;
  }
  size_t position() const { return position_; }

 private:
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

// The inverse of BitReader. Bits of a value above its field's width are cut off.
class BitWriter {
 public:
  static constexpr bool kReading = false;
  explicit BitWriter(std::span<uint8_t> bytes) : bytes_(bytes) {
    std::fill(bytes.begin(), bytes.end(), 0);
  }

  template <class T>
  void Bits(const T& field, unsigned count) {
    const uint64_t value = static_cast<uint64_t>(field);
    for (; count > 0;) {
      const unsigned in_byte = 8 - position_ % 8;
      const unsigned take = std::min(in_byte, count);
      const unsigned part = static_cast<unsigned>(value >> (count - take)) & ((1u << take) - 1);
      bytes_[position_ / 8] |= static_cast<uint8_t>(part << (in_byte - take));
      position_ += take;
      count -= take;
    }
  }
  template <size_t kSize>
  void Raw(const std::array<uint8_t, kSize>& field) {
    std::copy_n(field.data(), kSize, bytes_.data() + position_ / 8);
    position_ += 8 * kSize;
  }
  size_t position() const { return position_; }

 private:
  std::span<uint8_t> bytes_;
  size_t position_ = 0;
};

// The layouts, once for both directions: `m` is const when `io` writes.
template <class T, class Io>
using Of = std::conditional_t<Io::kReading, T, const T>;

template <class Io>
void Fields(Io& io, Of<MadHeader, Io>& m) {
  io.Bits(m.base_version, 8);
  io.Bits(m.management_class, 8);
  io.Bits(m.class_version, 8);
  io.Bits(m.method, 8);
  io.Bits(m.status, 16);
  io.Bits(m.class_specific, 16);
  io.Bits(m.transaction_id, 64);
  io.Bits(m.attribute, 16);
  io.Bits(m.reserved, 16);
  io.Bits(m.attribute_modifier, 32);
}

template <class Io>
void Fields(Io& io, Of<ReqPath, Io>& m) {
  io.Bits(m.local_lid, 16);
  io.Bits(m.remote_lid, 16);
  io.Raw(m.local_gid.raw);
  io.Raw(m.remote_gid.raw);
  io.Bits(m.flow_label, 20);
  io.Bits(m.reserved1, 6);
  io.Bits(m.packet_rate, 6);
  io.Bits(m.traffic_class, 8);
  io.Bits(m.hop_limit, 8);
  io.Bits(m.service_level, 4);
  io.Bits(m.subnet_local, 1);
  io.Bits(m.reserved2, 3);
  io.Bits(m.ack_timeout, 5);
  io.Bits(m.reserved3, 3);
}

template <class Io>
void Fields(Io& io, Of<Req, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.reserved1, 8);
  io.Bits(m.vendor_id, 24);
  io.Bits(m.service_id, 64);
  io.Bits(m.local_ca_guid, 64);
  io.Bits(m.reserved2, 32);
  io.Bits(m.local_qkey, 32);
  io.Bits(m.local_qpn, 24);
  io.Bits(m.responder_resources, 8);
  io.Bits(m.local_eecn, 24);
  io.Bits(m.initiator_depth, 8);
  io.Bits(m.remote_eecn, 24);
  io.Bits(m.remote_cm_response_timeout, 5);
  io.Bits(m.transport_type, 2);
  io.Bits(m.flow_control, 1);
  io.Bits(m.starting_psn, 24);
  io.Bits(m.local_cm_response_timeout, 5);
  io.Bits(m.retry_count, 3);
  io.Bits(m.pkey, 16);
  io.Bits(m.path_mtu, 4);
  io.Bits(m.rdc_exists, 1);
  io.Bits(m.rnr_retry_count, 3);
  io.Bits(m.max_cm_retries, 4);
  io.Bits(m.srq, 1);
  io.Bits(m.extended_transport_type, 3);
  Fields(io, m.primary);
  Fields(io, m.alternate);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Rep, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.local_qkey, 32);
  io.Bits(m.local_qpn, 24);
  io.Bits(m.vendor_id_high, 8);
  io.Bits(m.local_eecn, 24);
  io.Bits(m.vendor_id_middle, 8);
  io.Bits(m.starting_psn, 24);
  io.Bits(m.vendor_id_low, 8);
  io.Bits(m.responder_resources, 8);
  io.Bits(m.initiator_depth, 8);
  io.Bits(m.target_ack_delay, 5);
  io.Bits(m.failover_accepted, 2);
  io.Bits(m.flow_control, 1);
  io.Bits(m.rnr_retry_count, 3);
  io.Bits(m.srq, 1);
  io.Bits(m.reserved, 4);
  io.Bits(m.local_ca_guid, 64);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Rtu, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Rej, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.message_rejected, 2);
  io.Bits(m.reserved1, 6);
  io.Bits(m.reject_info_length, 7);
  io.Bits(m.reserved2, 1);
  io.Bits(m.reason, 16);
  io.Raw(m.ari);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Mra, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.message_mraed, 2);
  io.Bits(m.reserved1, 6);
  io.Bits(m.service_timeout, 5);
  io.Bits(m.reserved2, 3);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Dreq, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.remote_qpn, 24);
  io.Bits(m.reserved, 8);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Drep, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<SidrReq, Io>& m) {
  io.Bits(m.request_id, 32);
  io.Bits(m.pkey, 16);
  io.Bits(m.reserved, 16);
  io.Bits(m.service_id, 64);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<SidrRep, Io>& m) {
  io.Bits(m.request_id, 32);
  io.Bits(m.status, 8);
  io.Bits(m.info_length, 8);
  io.Bits(m.reserved, 16);
  io.Bits(m.qpn, 24);
  io.Bits(m.vendor_id, 8);
  io.Bits(m.service_id, 64);
  io.Bits(m.qkey, 32);
  io.Raw(m.info);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Lap, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.reserved1, 32);
  io.Bits(m.remote_qpn, 24);
  io.Bits(m.remote_cm_response_timeout, 5);
  io.Bits(m.reserved2, 3);
  io.Bits(m.reserved3, 32);
  io.Bits(m.alternate_local_lid, 16);
  io.Bits(m.alternate_remote_lid, 16);
  io.Raw(m.alternate_local_gid.raw);
  io.Raw(m.alternate_remote_gid.raw);
  io.Bits(m.flow_label, 20);
  io.Bits(m.reserved4, 4);
  io.Bits(m.traffic_class, 8);
  io.Bits(m.hop_limit, 8);
  io.Bits(m.reserved5, 2);
  io.Bits(m.packet_rate, 6);
  io.Bits(m.service_level, 4);
  io.Bits(m.subnet_local, 1);
  io.Bits(m.reserved6, 3);
  io.Bits(m.ack_timeout, 5);
  io.Bits(m.reserved7, 3);
  io.Raw(m.private_data);
}

template <class Io>
void Fields(Io& io, Of<Apr, Io>& m) {
  io.Bits(m.local_comm_id, 32);
  io.Bits(m.remote_comm_id, 32);
  io.Bits(m.info_length, 8);
  io.Bits(m.ap_status, 8);
  io.Bits(m.reserved, 16);
  io.Raw(m.info);
  io.Raw(m.private_data);
}

// Makes the alternative of `message` whose attribute is the header's. False when there is none.
template <size_t kIndex = 0>
bool Select(Attribute attribute, Message& message) {
  if constexpr (kIndex == std::variant_size_v<Message>) {
    return false;
  } else {
    if (std::variant_alternative_t<kIndex, Message>::kAttribute != attribute) {
      return Select<kIndex + 1>(attribute, message);
    }
    message.emplace<kIndex>();
    return true;
  }
}

}  // namespace

std::string_view AttributeName(Attribute attribute) {
  switch (attribute) {
    case Attribute::kClassPortInfo:
      return "ClassPortInfo";
    case Attribute::kReq:
      return "REQ";
    case Attribute::kMra:
      return "MRA";
    case Attribute::kRej:
      return "REJ";
    case Attribute::kRep:
      return "REP";
    case Attribute::kRtu:
      return "RTU";
    case Attribute::kDreq:
      return "DREQ";
    case Attribute::kDrep:
      return "DREP";
    case Attribute::kSidrReq:
      return "SIDR_REQ";
    case Attribute::kSidrRep:
      return "SIDR_REP";
    case Attribute::kLap:
      return "LAP";
    case Attribute::kApr:
      return "APR";
  }
  return "attribute?";
}

std::optional<MadHeader> ParseMadHeader(std::span<const uint8_t> mad) {
  if (mad.size() != kMadBytes) return std::nullopt;
  MadHeader header;
  BitReader reader(mad.first(kMadHeaderBytes));
  Fields(reader, header);
  assert(reader.position() == 8 * kMadHeaderBytes);
  return header;
}

std::optional<Mad> ParseMad(std::span<const uint8_t> mad) {
  const std::optional<MadHeader> header = ParseMadHeader(mad);
  if (!header || header->base_version != kMadBaseVersion ||
      header->management_class != kMadClassCm || header->class_version != kMadClassVersionCm) {
    return std::nullopt;
  }
  Mad parsed{.header = *header, .message = {}};
  if (!Select(header->attribute, parsed.message)) return std::nullopt;
  BitReader reader(mad.subspan(kMadHeaderBytes));
  std::visit([&reader](auto& message) { Fields(reader, message); }, parsed.message);
  assert(reader.position() == 8 * kMadBodyBytes);
  return parsed;
}

void EmitMad(const MadHeader& header, const Message& message, std::span<uint8_t, kMadBytes> out) {
  MadHeader own = header;
  own.attribute = std::visit([](const auto& m) { return m.kAttribute; }, message);
  BitWriter header_writer(out.first(kMadHeaderBytes));
  Fields(header_writer, own);
  BitWriter writer(out.subspan(kMadHeaderBytes));
  std::visit([&writer](const auto& m) { Fields(writer, m); }, message);
  assert(writer.position() == 8 * kMadBodyBytes);
}

}  // namespace pollux::cm
