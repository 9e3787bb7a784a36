#include "tools/cm_trace.h"

#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/cma_header.h"
#include "cm/mad.h"
#include "cm/service_id.h"
#include "rpcrdma/private_data.h"

namespace pollux::tools {
namespace {

std::string PrivateDataLine(absl::Span<const uint8_t> bytes, size_t from) {
  const std::optional<rpcrdma::PrivateData> data = rpcrdma::FindPrivateData(bytes, from);
  if (!data.has_value()) return "       no RFC 8797 private data\n";
  return absl::StrFormat(
      "       RFC 8797 private data: version 1, sends up to %u, receives up to %u bytes, "
      "remote invalidation %s\n",
      data->send_bytes, data->receive_bytes, data->remote_invalidation ? "yes" : "no");
}

template <size_t kBytes>
absl::Span<const uint8_t> SpanOf(const cm::Bytes<kBytes>& bytes) {
  return {bytes.data(), bytes.size()};
}

std::string Details(const cm::Req& req) {
  const std::optional<cm::ServiceId> service = cm::ServiceId::FromWire(req.service_id);
  return absl::StrCat(
      absl::StrFormat(
          "service 0x%016x%s, QPN 0x%06x, PSN 0x%06x, path MTU %u, "
          "responder resources %u, initiator depth %u, retry %u, RNR retry %u\n",
          req.service_id, service.has_value() ? absl::StrFormat(" (port %u)", service->port) : "",
          req.local_qpn, req.starting_psn, 128u << req.path_mtu, req.responder_resources,
          req.initiator_depth, req.retry_count, req.rnr_retry_count),
      PrivateDataLine(SpanOf(req.private_data), cm::kCmaHeaderBytes));
}

std::string Details(const cm::Rep& rep) {
  return absl::StrCat(
      absl::StrFormat("QPN 0x%06x, PSN 0x%06x, responder resources %u, initiator depth %u, "
                      "RNR retry %u\n",
                      rep.local_qpn, rep.starting_psn, rep.responder_resources, rep.initiator_depth,
                      rep.rnr_retry_count),
      PrivateDataLine(SpanOf(rep.private_data), 0));
}

std::string Details(const cm::Rej& rej) {
  return absl::StrFormat("reason %u (%s)\n", rej.reason, cm::RejectReasonName(rej.reason));
}

std::string Details(const cm::Dreq& dreq) {
  return absl::StrFormat("of QPN 0x%06x\n", dreq.remote_qpn);
}

template <class Other>
std::string Details(const Other&) {
  return "\n";
}

}  // namespace

std::string DescribeMad(bool outgoing, absl::Span<const uint8_t> mad) {
  const char* arrow = outgoing ? "  ->" : "  <-";
  const std::optional<cm::Mad> parsed = cm::ParseMad({mad.data(), mad.size()});
  if (!parsed.has_value()) {
    return absl::StrFormat("%s %u bytes that are no CM MAD\n", arrow, mad.size());
  }
  return std::visit(
      [&](const auto& message) {
        return absl::StrFormat("%s %-4s ", arrow,
                               std::string(cm::AttributeName(message.kAttribute))) +
               Details(message);
      },
      parsed->message);
}

}  // namespace pollux::tools
