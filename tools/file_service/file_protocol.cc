#include "tools/file_service/file_protocol.h"

#include "absl/strings/str_cat.h"

namespace pollux::tools {
namespace {

constexpr uint32_t kWord = 4;
constexpr uint32_t kHyper = 8;
constexpr uint32_t kNameBytes = kWord + kMaxName + 1;

constexpr uint32_t Number(FileProcedure procedure) { return static_cast<uint32_t>(procedure); }

}  // namespace

FileStatus FileStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return FileStatus::kOk;
    case absl::StatusCode::kNotFound:
      return FileStatus::kNotFound;
    case absl::StatusCode::kPermissionDenied:
      return FileStatus::kDenied;
    case absl::StatusCode::kResourceExhausted:
      return FileStatus::kNoSpace;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return FileStatus::kInvalid;
    default:
      return FileStatus::kIo;
  }
}

absl::Status StatusOf(FileStatus status, const std::string& what) {
  switch (status) {
    case FileStatus::kOk:
      return absl::OkStatus();
    case FileStatus::kNotFound:
      return absl::NotFoundError(absl::StrCat(what, ": the server has no such file"));
    case FileStatus::kDenied:
      return absl::PermissionDeniedError(absl::StrCat(what, ": the server does not allow it"));
    case FileStatus::kNoSpace:
      return absl::ResourceExhaustedError(absl::StrCat(what, ": the server has no space left"));
    case FileStatus::kInvalid:
      return absl::FailedPreconditionError(
          absl::StrCat(what, ": not a name or a range that the server can use"));
    case FileStatus::kIo:
      break;
  }
  return absl::UnknownError(absl::StrCat(what, ": the server could not do it (I/O error)"));
}

oncrpc::ProgramBinding FileBinding() {
  using P = FileProcedure;
  return {.program = kFileProgram,
          .version = kFileVersion,
          .procedures = {
              {.number = Number(P::kNull), .idempotent = true},
              {.number = Number(P::kStat),
               .max_argument_bytes = kNameBytes,
               .max_result_bytes = kWord + 2 * kHyper + kWord,
               .idempotent = true},
              {.number = Number(P::kRead),
               .max_argument_bytes = kNameBytes + kHyper + kWord,
               .max_result_bytes = 2 * kWord,
               .max_eligible_result_bytes = kMaxBlock,
               .idempotent = true},
              {.number = Number(P::kCreate),
               .max_argument_bytes = kNameBytes,
               .max_result_bytes = kWord},
              {.number = Number(P::kWrite),
               .max_argument_bytes = kNameBytes + kHyper + kWord,
               .max_eligible_argument_bytes = kMaxBlock,
               .max_result_bytes = kWord,
               .idempotent = true},
              {.number = Number(P::kList),
               .max_argument_bytes = kNameBytes,
               .max_result_bytes = kMaxListBytes,
               .idempotent = true},
          }};
}

}  // namespace pollux::tools
