// The file service, version 1, on the wire: what pollux serve, put, get, ls and the demo speak. In
// the notation of RFC 4506:
//
//   enum status { OK = 0, NOT_FOUND = 1, DENIED = 2, NO_SPACE = 3, INVALID = 4, IO = 5 };
//   typedef string name<1023>;
//   program FILE_SERVICE {
//     version V1 {
//       void   NULL(void) = 0;
//       union switch (status) { case OK: unsigned hyper size; unsigned hyper modified_ns;
//                               bool directory; }                          STAT(name) = 1;
//       union switch (status) { case OK: opaque data<1048576>; }           /* data: DDP-eligible */
//                                    READ(name, unsigned hyper offset, unsigned count) = 2;
//       status CREATE(name) = 3;
//       status WRITE(name, unsigned hyper offset, opaque data<1048576>) = 4;   /* data likewise */
//       union switch (status) { case OK: entry entries<>; bool more; }     LIST(name after) = 5;
//     } = 1;
//   } = 0x20504C58;           /* local use: RFC 5531 section 8.1 */
//   struct entry { name name; unsigned hyper size; bool directory; };
#ifndef POLLUX_TOOLS_FILE_SERVICE_FILE_PROTOCOL_H_
#define POLLUX_TOOLS_FILE_SERVICE_FILE_PROTOCOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "oncrpc/binding.h"

namespace pollux::tools {

inline constexpr uint32_t kFileProgram = 0x20504C58;
inline constexpr uint32_t kFileVersion = 1;

enum class FileProcedure : uint32_t {
  kNull = 0,
  kStat = 1,
  kRead = 2,
  kCreate = 3,
  kWrite = 4,
  kList = 5,
};

inline constexpr uint32_t kMaxName = 1023;            // bytes
inline constexpr uint32_t kMaxBlock = 1 << 20;        // bytes of one READ or WRITE
inline constexpr uint32_t kMaxListBytes = 64 * 1024;  // XDR of one LIST result
// The most outstanding calls, at both ends: several bursts of packets. With only one burst, one
// core would have all calls while the other one has nothing to do.
inline constexpr uint32_t kCredits = 128;

enum class FileStatus : uint32_t {
  kOk = 0,
  kNotFound = 1,
  kDenied = 2,
  kNoSpace = 3,
  kInvalid = 4,
  kIo = 5,
};
FileStatus FileStatusOf(const absl::Status& status);
// The message begins with `what`.
absl::Status StatusOf(FileStatus status, const std::string& what);

// Sizes of every procedure, and which items are DDP-eligible. RFC 8166 section 6
oncrpc::ProgramBinding FileBinding();

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_FILE_SERVICE_FILE_PROTOCOL_H_
