// CM MADs as named fields.
#ifndef POLLUX_TOOLS_DECODE_CM_FIELDS_H_
#define POLLUX_TOOLS_DECODE_CM_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cm/wire/mad.h"

namespace pollux::decode {

// All fields except reserved ones, with the specification's names. Fields that other tools show in
// hexadecimal are text, "0x...". Includes "cma" (the RDMA IP CM header) and "rfc8797" if the
// private data has them, and "private_data" in hexadecimal without trailing zeros.
nlohmann::ordered_json CmFields(const cm::Mad& mad);

// A summary for one line: "REQ service 0x0000000001064e51 (port 20049), QPN 0x0012ab, ...". Only
// the name for messages without such fields.
std::string CmSummary(const cm::Message& message);

// Whether a REQ or SIDR_REQ with an RDMA IP CM service ID lacks a valid CMA header.
bool CmaHeaderIsBad(const cm::Message& message);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_CM_FIELDS_H_
