#include "nfs/v3/binding.h"

#include "nfs/v3/files.h"
#include "nfs/v3/handle.h"
#include "nfs/v3/listing.h"

namespace pollux::nfs {
namespace {

constexpr uint32_t kWord = 4;
constexpr uint32_t kHyper = 8;
constexpr uint32_t kTime = 2 * kWord;
constexpr uint32_t kHandle = kWord + kFhsize3;
constexpr uint32_t kDirop = kHandle + kWord + kMaxFilename3;
constexpr uint32_t kSattr = 3 * (kWord + kWord) + (kWord + kHyper) + 2 * (kWord + kTime);
constexpr uint32_t kFattr = 5 * kWord + 2 * kHyper + 2 * kWord + 2 * kHyper + 3 * kTime;
constexpr uint32_t kPostOpAttr = kWord + kFattr;
constexpr uint32_t kWcc = kWord + kHyper + 2 * kTime + kPostOpAttr;
constexpr uint32_t kCreated = kWord + kHandle + kPostOpAttr + kWcc;

oncrpc::ProcedureBinding Bind(Procedure procedure, uint32_t arguments, uint32_t results,
                              bool idempotent) {
  return {.number = static_cast<uint32_t>(procedure),
          .max_argument_bytes = arguments,
          .max_result_bytes = results,
          .idempotent = idempotent};
}

oncrpc::ProcedureBinding WithArgument(oncrpc::ProcedureBinding binding, uint32_t eligible) {
  binding.max_eligible_argument_bytes = eligible;
  return binding;
}

oncrpc::ProcedureBinding Joining(oncrpc::ProcedureBinding binding) {
  binding.joins = true;
  return binding;
}

oncrpc::ProcedureBinding WithResult(oncrpc::ProcedureBinding binding, uint32_t eligible) {
  binding.max_eligible_result_bytes = eligible;
  return binding;
}

}  // namespace

oncrpc::ProgramBinding Nfs3Binding() {
  using P = Procedure;
  const uint32_t readdir = kHandle + 2 * kHyper + kWord;
  return {
      .program = kNfsProgram,
      .version = kNfsV3,
      .procedures = {
          Bind(P::kNull, 0, 0, true),
          Bind(P::kGetattr, kHandle, kWord + kFattr, true),
          Bind(P::kSetattr, kHandle + kSattr + kWord + kTime, kWord + kWcc, false),
          Bind(P::kLookup, kDirop, kWord + kHandle + 2 * kPostOpAttr, true),
          Bind(P::kAccess, kHandle + kWord, kWord + kPostOpAttr + kWord, true),
          WithResult(Bind(P::kReadlink, kHandle, kWord + kPostOpAttr + kWord, true), kMaxNfspath3),
          WithResult(
              Bind(P::kRead, kHandle + kHyper + kWord, kWord + kPostOpAttr + 3 * kWord, true),
              kMaxFileData),
          Joining(WithArgument(Bind(P::kWrite, kHandle + kHyper + 3 * kWord,
                                    kWord + kWcc + 2 * kWord + kHyper, true),
                               kMaxFileData)),
          Bind(P::kCreate, kDirop + kWord + kSattr, kWord + kCreated, false),
          Bind(P::kMkdir, kDirop + kSattr, kWord + kCreated, false),
          WithArgument(Bind(P::kSymlink, kDirop + kSattr + kWord, kWord + kCreated, false),
                       kMaxNfspath3),
          Bind(P::kMknod, kDirop + kWord + kSattr + 2 * kWord, kWord + kCreated, false),
          Bind(P::kRemove, kDirop, kWord + kWcc, false),
          Bind(P::kRmdir, kDirop, kWord + kWcc, false),
          Bind(P::kRename, 2 * kDirop, kWord + 2 * kWcc, false),
          Bind(P::kLink, kHandle + kDirop, kWord + kPostOpAttr + kWcc, false),
          Bind(P::kReaddir, readdir, kWord + kMaxDirectoryBytes, true),
          Bind(P::kReaddirplus, readdir + kWord, kWord + kMaxDirectoryBytes, true),
          Bind(P::kFsstat, kHandle, kWord + kPostOpAttr + 6 * kHyper + kWord, true),
          Bind(P::kFsinfo, kHandle, kWord + kPostOpAttr + 7 * kWord + kHyper + kTime + kWord, true),
          Bind(P::kPathconf, kHandle, kWord + kPostOpAttr + 6 * kWord, true),
          Bind(P::kCommit, kHandle + kHyper + kWord, kWord + kWcc + kHyper, true),
      }};
}

}  // namespace pollux::nfs
