// CM MADs as named fields.
#ifndef POLLUX_TOOLS_DECODE_CM_FIELDS_H_
#define POLLUX_TOOLS_DECODE_CM_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cm/wire/mad.h"

namespace pollux::decode {

// Every field but the reserved ones: numbers as the specification names them, what stands in hex on
// other tools' screens as "0x..." text. With "cma" (the RDMA IP CM header) and "rfc8797" where the
// private data has them, and "private_data" in hex without the zeros at its end.
nlohmann::ordered_json CmFields(const cm::Mad& mad);

// What one line has room for: "REQ service 0x0000000001064e51 (port 20049), QPN 0x0012ab, ...".
// Nothing follows the name of a message that has no more to say.
std::string CmSummary(const cm::Message& message);

// Whether a REQ or SIDR_REQ under an RDMA IP CM service ID lacks a CMA header that decodes.
bool CmaHeaderIsBad(const cm::Message& message);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_CM_FIELDS_H_
