// Names for numbers in packets.
#ifndef POLLUX_TOOLS_DECODE_NAMES_H_
#define POLLUX_TOOLS_DECODE_NAMES_H_

#include <cstdint>
#include <string>

#include "stack/base/types.h"

namespace pollux::decode {

// "RC SEND Only"; "?" for an unknown opcode.
std::string OpcodeName(uint8_t opcode);
// "RDMA_MSG"; "?" for an unknown one. RFC 8166 section 4.2.4
std::string RpcProcedureName(uint32_t procedure);
// The statuses of a SIDR_REP and an APR.
std::string SidrStatusName(uint8_t status);
std::string AprStatusName(uint8_t status);
// "REQ", "REP" or "LAP"; `other` is the name for number 2, which differs between REJ and MRA.
std::string AboutMessageName(uint8_t message, const char* other);

// "192.0.2.1", "2001:db8::1".
std::string AddressText(const Gid& gid);
std::string MacText(const MacAddress& mac);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_NAMES_H_
