#include "nfs/procedures/failed_results.h"

#include "stack/base/byte_order.h"

namespace pollux::nfs {
namespace {

// An absent post_op_attr is a word, an absent wcc_data two.
constexpr size_t AbsentWords(Procedure procedure) {
  switch (procedure) {
    case Procedure::kNull:
    case Procedure::kGetattr:
      return 0;
    case Procedure::kLookup:
    case Procedure::kAccess:
    case Procedure::kReadlink:
    case Procedure::kRead:
    case Procedure::kReaddir:
    case Procedure::kReaddirplus:
    case Procedure::kFsstat:
    case Procedure::kFsinfo:
    case Procedure::kPathconf:
      return 1;
    case Procedure::kSetattr:
    case Procedure::kWrite:
    case Procedure::kCreate:
    case Procedure::kMkdir:
    case Procedure::kSymlink:
    case Procedure::kMknod:
    case Procedure::kRemove:
    case Procedure::kRmdir:
    case Procedure::kCommit:
      return 2;
    case Procedure::kLink:
      return 3;
    case Procedure::kRename:
      return 4;
  }
  return 0;
}

}  // namespace

absl::Span<const uint8_t> EncodeFailedResults(Procedure procedure, Nfsstat3 status,
                                              FailedResultsSpace* space) {
  space->fill(0);
  StoreBe32(space->data(), static_cast<uint32_t>(status));
  return absl::MakeConstSpan(*space).first(4 * (1 + AbsentWords(procedure)));
}

}  // namespace pollux::nfs
