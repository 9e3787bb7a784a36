#include "tests/conformance/checker.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/service_id.h"
#include "rpcrdma/wire/header.h"
#include "stack/base/byte_order.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icrc.h"
#include "tests/conformance/reencode.h"
#include "tests/conformance/reference_icrc.h"

namespace pollux::conformance {
namespace {

std::span<const uint8_t> PayloadOf(const wire::RocePacket& packet) {
  return {packet.payload(), packet.payload_length};
}

template <typename Key>
void AddAll(const std::map<Key, uint64_t>& from, std::map<Key, uint64_t>* to) {
  for (const auto& [key, count] : from) (*to)[key] += count;
}

bool IsRoceV1(std::span<const uint8_t> frame) {
  const auto header = wire::ParseEthernet(frame.data(), frame.size());
  return header && header->ether_type == wire::kEtherTypeRoceV1;
}

// The CMA header of a REQ or SIDR_REQ under an RDMA IP CM service ID, re-encoded.
template <typename Message>
std::string CheckCmaHeader(const Message& message) {
  if (!cm::ServiceId::FromWire(message.service_id)) return "";
  const auto header = cm::CmaHeader::Parse(message.private_data);
  if (!header) return "the CMA header cannot be decoded";
  std::array<uint8_t, cm::kCmaHeaderBytes> again;
  header->Emit(again);
  if (!std::equal(again.begin(), again.end(), message.private_data.begin())) {
    return "the CMA header re-encodes differently";
  }
  return "";
}

}  // namespace

void Counts::Add(const Counts& other) {
  frames += other.frames;
  roce += other.roce;
  rocev1 += other.rocev1;
  failed += other.failed;
  AddAll(other.opcodes, &opcodes);
  AddAll(other.syndromes, &syndromes);
  AddAll(other.mads, &mads);
  AddAll(other.rpcs, &rpcs);
}

std::string Checker::Check(std::span<const uint8_t> frame) {
  ++counts_.frames;
  std::string failure;
  wire::RocePacket packet;
  const wire::ParseResult result = wire::ParseRocePacket(frame.data(), frame.size(), &packet);
  if (result == wire::ParseResult::kOk) {
    failure = CheckRoce(frame, packet);
  } else if (result != wire::ParseResult::kNotRoce) {
    ++counts_.roce;
    failure = absl::StrCat("cannot be decoded: ", wire::ParseResultName(result));
  } else if (IsRoceV1(frame)) {
    failure = CheckRoceV1(frame);
  }
  if (!failure.empty()) ++counts_.failed;
  return failure;
}

std::string Checker::CheckRoceV1(std::span<const uint8_t> frame) {
  ++counts_.rocev1;
  return ReferenceIcrcIsValid(frame) ? "" : "RoCEv1: wrong ICRC";
}

std::string Checker::CheckRoce(std::span<const uint8_t> frame, const wire::RocePacket& packet) {
  ++counts_.roce;
  ++counts_.opcodes[static_cast<uint8_t>(packet.bth.opcode)];
  if (packet.info->headers & wire::kHasAeth) ++counts_.syndromes[packet.aeth().syndrome];

  const bool valid = wire::IcrcIsValid(packet);
  if (valid != ReferenceIcrcIsValid(frame)) return "the two ICRC implementations disagree";
  if (!valid) {
    return absl::StrFormat("wrong ICRC: %08x on the wire, computed %08x",
                           LoadBe32(packet.frame + packet.icrc_offset),
                           __builtin_bswap32(wire::ComputeIcrc(packet)));
  }
  const std::string difference = DescribeDifference(frame, ReencodeFrame(frame, packet), packet);
  if (!difference.empty()) {
    return absl::StrCat(packet.info->name, ": re-encodes differently: ", difference);
  }
  if (packet.info->transport == wire::Transport::kUd && packet.bth.dest_qpn == kGsiQpn) {
    return CheckMad(packet);
  }
  if (rpc_.BeginsMessage(packet)) return CheckRpcHeader(PayloadOf(packet));
  return "";
}

std::string Checker::CheckMad(const wire::RocePacket& packet) {
  const auto payload = PayloadOf(packet);
  const auto header = cm::ParseMadHeader(payload);
  if (!header) return absl::StrCat("a MAD of ", payload.size(), " bytes, not 256");
  if (header->management_class != cm::kMadClassCm) return "";
  ++counts_.mads[static_cast<uint16_t>(header->attribute)];
  const auto mad = cm::ParseMad(payload);
  if (!mad) {
    return absl::StrFormat("CM MAD cannot be decoded: attribute 0x%04x",
                           static_cast<uint16_t>(header->attribute));
  }
  cm::MadBuffer again;
  cm::EmitMad(*mad, again);
  const std::string name(cm::AttributeName(header->attribute));
  const auto [in, out] = std::mismatch(payload.begin(), payload.end(), again.begin());
  if (in != payload.end()) {
    return absl::StrFormat("CM %s: byte %d is 0x%02x, re-encoded 0x%02x", name,
                           in - payload.begin(), *in, *out);
  }
  std::string failure;
  if (const auto* req = std::get_if<cm::Req>(&mad->message)) failure = CheckCmaHeader(*req);
  if (const auto* sidr = std::get_if<cm::SidrReq>(&mad->message)) failure = CheckCmaHeader(*sidr);
  if (!failure.empty()) return absl::StrCat("CM ", name, ": ", failure);
  rpc_.Follow(packet, mad->message);
  return "";
}

std::string Checker::CheckRpcHeader(std::span<const uint8_t> message) {
  rpcrdma::Header header;
  size_t header_bytes = 0;
  const auto status =
      rpcrdma::ParseHeader({message.data(), message.size()}, &header, &header_bytes);
  if (status != rpcrdma::HeaderStatus::kOk) return "RPC-over-RDMA header cannot be decoded";
  ++counts_.rpcs[static_cast<uint32_t>(header.proc)];
  std::vector<uint8_t> again(rpcrdma::HeaderBytes(header));
  if (again.size() != header_bytes || header_bytes > message.size() ||
      rpcrdma::EmitHeader(header, absl::MakeSpan(again)) != header_bytes) {
    return "RPC-over-RDMA header re-encodes to another length";
  }
  const auto [in, out] = std::mismatch(again.begin(), again.end(), message.begin());
  if (in != again.end()) {
    return absl::StrFormat("RPC-over-RDMA header: byte %d is 0x%02x, re-encoded 0x%02x",
                           in - again.begin(), *out, *in);
  }
  return "";
}

}  // namespace pollux::conformance
