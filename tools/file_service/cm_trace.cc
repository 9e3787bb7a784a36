#include "tools/file_service/cm_trace.h"

#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cm/wire/cma_header.h"
#include "cm/wire/mad.h"
#include "rpcrdma/wire/private_data.h"
#include "tools/decode/cm_fields.h"

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

std::string PrivateDataOf(const cm::Message& message) {
  if (const auto* req = std::get_if<cm::Req>(&message)) {
    return PrivateDataLine({req->private_data.data(), req->private_data.size()},
                           cm::kCmaHeaderBytes);
  }
  if (const auto* rep = std::get_if<cm::Rep>(&message)) {
    return PrivateDataLine({rep->private_data.data(), rep->private_data.size()}, 0);
  }
  return "";
}

}  // namespace

std::string DescribeMad(bool outgoing, absl::Span<const uint8_t> mad) {
  const char* arrow = outgoing ? "  ->" : "  <-";
  const std::optional<cm::Mad> parsed = cm::ParseMad({mad.data(), mad.size()});
  if (!parsed.has_value()) {
    return absl::StrFormat("%s %u bytes that are not a CM MAD\n", arrow, mad.size());
  }
  return absl::StrCat(arrow, " ", decode::CmSummary(parsed->message), "\n",
                      PrivateDataOf(parsed->message));
}

}  // namespace pollux::tools
