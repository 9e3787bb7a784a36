#include "tools/decode/cm_fields.h"

#include <optional>
#include <span>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/reasons.h"
#include "cm/wire/service_id.h"
#include "rpcrdma/wire/private_data.h"
#include "tools/decode/hex.h"
#include "tools/decode/names.h"

namespace pollux::decode {
namespace {

using Json = nlohmann::ordered_json;

std::string HexBytes(std::span<const uint8_t> bytes) {
  size_t end = bytes.size();
  while (end > 0 && bytes[end - 1] == 0) --end;
  std::string text;
  for (size_t i = 0; i < end; ++i) absl::StrAppendFormat(&text, "%02x", bytes[i]);
  return text;
}

void AddPrivateData(std::span<const uint8_t> bytes, size_t from, Json* fields) {
  const auto rpc = rpcrdma::FindPrivateData({bytes.data(), bytes.size()}, from);
  if (rpc.has_value()) {
    (*fields)["rfc8797"] = {{"version", 1},
                            {"remote_invalidation", rpc->remote_invalidation},
                            {"send_bytes", rpc->send_bytes},
                            {"receive_bytes", rpc->receive_bytes}};
  }
  (*fields)["private_data"] = HexBytes(bytes);
}

template <class Message>
void AddService(const Message& message, Json* fields) {
  (*fields)["service_id"] = Hex64(message.service_id);
  if (const auto service = cm::ServiceId::FromWire(message.service_id)) {
    (*fields)["port_space"] = service->port_space == RDMA_PS_TCP   ? "RDMA_PS_TCP"
                              : service->port_space == RDMA_PS_UDP ? "RDMA_PS_UDP"
                                                                   : "RDMA_PS_IB";
    (*fields)["port"] = service->port;
  }
}

// Returns the bytes that it takes of the private data.
template <class Message>
size_t AddCma(const Message& message, Json* fields) {
  if (!cm::ServiceId::FromWire(message.service_id)) return 0;
  const auto header = cm::CmaHeader::Parse(message.private_data);
  if (!header) return 0;
  (*fields)["cma"] = {{"version", Hex8(header->version)},
                      {"source", AddressText(header->source)},
                      {"source_port", header->source_port},
                      {"destination", AddressText(header->destination)}};
  return cm::kCmaHeaderBytes;
}

template <class Message>
void AddCommIds(const Message& message, Json* fields) {
  (*fields)["local_comm_id"] = Hex32(message.local_comm_id);
  (*fields)["remote_comm_id"] = Hex32(message.remote_comm_id);
}

Json PathFields(const cm::ReqPath& path) {
  return {{"local_lid", Hex16(path.local_lid)},       {"remote_lid", Hex16(path.remote_lid)},
          {"local_gid", AddressText(path.local_gid)}, {"remote_gid", AddressText(path.remote_gid)},
          {"flow_label", Hex24(path.flow_label)},     {"packet_rate", path.packet_rate},
          {"traffic_class", path.traffic_class},      {"hop_limit", path.hop_limit},
          {"service_level", path.service_level},      {"subnet_local", path.subnet_local},
          {"ack_timeout", path.ack_timeout}};
}

void AddFields(const cm::Req& req, Json* fields) {
  (*fields)["local_comm_id"] = Hex32(req.local_comm_id);
  (*fields)["vendor_id"] = Hex24(req.vendor_id);
  AddService(req, fields);
  (*fields)["local_ca_guid"] = Hex64(req.local_ca_guid);
  (*fields)["local_qkey"] = Hex32(req.local_qkey);
  (*fields)["local_qpn"] = Hex24(req.local_qpn);
  (*fields)["responder_resources"] = req.responder_resources;
  (*fields)["local_eecn"] = Hex24(req.local_eecn);
  (*fields)["initiator_depth"] = req.initiator_depth;
  (*fields)["remote_eecn"] = Hex24(req.remote_eecn);
  (*fields)["remote_cm_response_timeout"] = req.remote_cm_response_timeout;
  static constexpr const char* kTransports[] = {"RC", "UC", "RD", "extended"};
  (*fields)["transport"] = kTransports[req.transport_type & 3];
  (*fields)["flow_control"] = req.flow_control;
  (*fields)["starting_psn"] = Hex24(req.starting_psn);
  (*fields)["local_cm_response_timeout"] = req.local_cm_response_timeout;
  (*fields)["retry_count"] = req.retry_count;
  (*fields)["pkey"] = Hex16(req.pkey);
  (*fields)["path_mtu"] = 128u << req.path_mtu;
  (*fields)["rdc_exists"] = req.rdc_exists;
  (*fields)["rnr_retry_count"] = req.rnr_retry_count;
  (*fields)["max_cm_retries"] = req.max_cm_retries;
  (*fields)["srq"] = req.srq;
  (*fields)["extended_transport"] = req.extended_transport_type;
  (*fields)["primary"] = PathFields(req.primary);
  if (req.alternate.local_gid != Gid{}) (*fields)["alternate"] = PathFields(req.alternate);
  AddPrivateData(req.private_data, AddCma(req, fields), fields);
}

void AddFields(const cm::Rep& rep, Json* fields) {
  AddCommIds(rep, fields);
  (*fields)["local_qkey"] = Hex32(rep.local_qkey);
  (*fields)["local_qpn"] = Hex24(rep.local_qpn);
  (*fields)["local_eecn"] = Hex24(rep.local_eecn);
  (*fields)["starting_psn"] = Hex24(rep.starting_psn);
  (*fields)["vendor_id"] = Hex24(uint32_t{rep.vendor_id_high} << 16 |
                                 uint32_t{rep.vendor_id_middle} << 8 | rep.vendor_id_low);
  (*fields)["responder_resources"] = rep.responder_resources;
  (*fields)["initiator_depth"] = rep.initiator_depth;
  (*fields)["target_ack_delay"] = rep.target_ack_delay;
  (*fields)["failover_accepted"] = rep.failover_accepted;
  (*fields)["flow_control"] = rep.flow_control;
  (*fields)["rnr_retry_count"] = rep.rnr_retry_count;
  (*fields)["srq"] = rep.srq;
  (*fields)["local_ca_guid"] = Hex64(rep.local_ca_guid);
  AddPrivateData(rep.private_data, 0, fields);
}

void AddFields(const cm::Rtu& rtu, Json* fields) {
  AddCommIds(rtu, fields);
  AddPrivateData(rtu.private_data, 0, fields);
}

void AddFields(const cm::Rej& rej, Json* fields) {
  AddCommIds(rej, fields);
  (*fields)["message_rejected"] = AboutMessageName(rej.message_rejected, "none");
  (*fields)["reason"] = rej.reason;
  (*fields)["reason_name"] = cm::RejectReasonName(rej.reason);
  (*fields)["reject_info_length"] = rej.reject_info_length;
  (*fields)["reject_info"] = HexBytes(rej.ari);
  AddPrivateData(rej.private_data, 0, fields);
}

void AddFields(const cm::Mra& mra, Json* fields) {
  AddCommIds(mra, fields);
  (*fields)["message_mraed"] = AboutMessageName(mra.message_mraed, "LAP");
  (*fields)["service_timeout"] = mra.service_timeout;
  AddPrivateData(mra.private_data, 0, fields);
}

void AddFields(const cm::Dreq& dreq, Json* fields) {
  AddCommIds(dreq, fields);
  (*fields)["remote_qpn"] = Hex24(dreq.remote_qpn);
  AddPrivateData(dreq.private_data, 0, fields);
}

void AddFields(const cm::Drep& drep, Json* fields) {
  AddCommIds(drep, fields);
  AddPrivateData(drep.private_data, 0, fields);
}

void AddFields(const cm::SidrReq& req, Json* fields) {
  (*fields)["request_id"] = Hex32(req.request_id);
  (*fields)["pkey"] = Hex16(req.pkey);
  AddService(req, fields);
  AddPrivateData(req.private_data, AddCma(req, fields), fields);
}

void AddFields(const cm::SidrRep& rep, Json* fields) {
  (*fields)["request_id"] = Hex32(rep.request_id);
  (*fields)["status"] = rep.status;
  (*fields)["status_name"] = SidrStatusName(rep.status);
  (*fields)["qpn"] = Hex24(rep.qpn);
  AddService(rep, fields);
  (*fields)["qkey"] = Hex32(rep.qkey);
  (*fields)["info_length"] = rep.info_length;
  (*fields)["info"] = HexBytes(rep.info);
  AddPrivateData(rep.private_data, 0, fields);
}

void AddFields(const cm::Lap& lap, Json* fields) {
  AddCommIds(lap, fields);
  (*fields)["remote_qpn"] = Hex24(lap.remote_qpn);
  (*fields)["remote_cm_response_timeout"] = lap.remote_cm_response_timeout;
  (*fields)["alternate"] = {{"local_lid", Hex16(lap.alternate_local_lid)},
                            {"remote_lid", Hex16(lap.alternate_remote_lid)},
                            {"local_gid", AddressText(lap.alternate_local_gid)},
                            {"remote_gid", AddressText(lap.alternate_remote_gid)},
                            {"flow_label", Hex24(lap.flow_label)},
                            {"packet_rate", lap.packet_rate},
                            {"traffic_class", lap.traffic_class},
                            {"hop_limit", lap.hop_limit},
                            {"service_level", lap.service_level},
                            {"subnet_local", lap.subnet_local},
                            {"ack_timeout", lap.ack_timeout}};
  AddPrivateData(lap.private_data, 0, fields);
}

void AddFields(const cm::Apr& apr, Json* fields) {
  AddCommIds(apr, fields);
  (*fields)["ap_status"] = apr.ap_status;
  (*fields)["ap_status_name"] = AprStatusName(apr.ap_status);
  (*fields)["info_length"] = apr.info_length;
  (*fields)["info"] = HexBytes(apr.info);
  AddPrivateData(apr.private_data, 0, fields);
}

std::string Service(uint64_t service_id) {
  const std::optional<cm::ServiceId> service = cm::ServiceId::FromWire(service_id);
  return absl::StrFormat("service 0x%016x%s", service_id,
                         service.has_value() ? absl::StrFormat(" (port %u)", service->port) : "");
}

std::string Summary(const cm::Req& req) {
  return absl::StrFormat(
      "%s, QPN 0x%06x, PSN 0x%06x, path MTU %u, responder resources %u, initiator depth %u, "
      "retry %u, RNR retry %u",
      Service(req.service_id), req.local_qpn, req.starting_psn, 128u << req.path_mtu,
      req.responder_resources, req.initiator_depth, req.retry_count, req.rnr_retry_count);
}

std::string Summary(const cm::Rep& rep) {
  return absl::StrFormat(
      "QPN 0x%06x, PSN 0x%06x, responder resources %u, initiator depth %u, RNR retry %u",
      rep.local_qpn, rep.starting_psn, rep.responder_resources, rep.initiator_depth,
      rep.rnr_retry_count);
}

std::string Summary(const cm::Rej& rej) {
  return absl::StrFormat("reason %u (%s)", rej.reason, cm::RejectReasonName(rej.reason));
}

std::string Summary(const cm::Mra& mra) {
  return absl::StrFormat("of %s, service timeout %u", AboutMessageName(mra.message_mraed, "LAP"),
                         mra.service_timeout);
}

std::string Summary(const cm::Dreq& dreq) {
  return absl::StrFormat("of QPN 0x%06x", dreq.remote_qpn);
}

std::string Summary(const cm::SidrReq& req) { return Service(req.service_id); }

std::string Summary(const cm::SidrRep& rep) {
  return absl::StrFormat("status %u (%s), QPN 0x%06x", rep.status, SidrStatusName(rep.status),
                         rep.qpn);
}

std::string Summary(const cm::Apr& apr) {
  return absl::StrFormat("status %u (%s)", apr.ap_status, AprStatusName(apr.ap_status));
}

template <class Other>
std::string Summary(const Other&) {
  return "";
}

template <class Message>
bool IsBad(const Message& message) {
  return cm::ServiceId::FromWire(message.service_id) && !cm::CmaHeader::Parse(message.private_data);
}

}  // namespace

Json CmFields(const cm::Mad& mad) {
  Json fields;
  fields["message"] = std::string(cm::AttributeName(mad.header.attribute));
  fields["transaction_id"] = Hex64(mad.header.transaction_id);
  if (mad.header.status != 0) fields["mad_status"] = Hex16(mad.header.status);
  if (mad.header.attribute_modifier != 0) {
    fields["attribute_modifier"] = Hex32(mad.header.attribute_modifier);
  }
  std::visit([&fields](const auto& message) { AddFields(message, &fields); }, mad.message);
  return fields;
}

std::string CmSummary(const cm::Message& message) {
  return std::visit(
      [](const auto& of_it) {
        const std::string rest = Summary(of_it);
        return absl::StrCat(std::string(cm::AttributeName(of_it.kAttribute)),
                            rest.empty() ? "" : " ", rest);
      },
      message);
}

bool CmaHeaderIsBad(const cm::Message& message) {
  if (const auto* req = std::get_if<cm::Req>(&message)) return IsBad(*req);
  if (const auto* sidr = std::get_if<cm::SidrReq>(&message)) return IsBad(*sidr);
  return false;
}

}  // namespace pollux::decode
