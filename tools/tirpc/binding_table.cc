#include "tools/tirpc/binding_table.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "oncrpc/xdr.h"

namespace pollux::tools {
namespace {

using rpcrdma::tirpc::ItemFields;
using rpcrdma::tirpc::UpperLayer;

static_assert(POLLUX_MAX_ITEMS == oncrpc::kMaxItems);

// Never destroyed: threads may outlive main().
struct BindingTable {
  std::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, UpperLayer> stated;
};
BindingTable& Stated() {
  static auto* const table = new BindingTable;
  return *table;
}

absl::StatusOr<ItemFields> FieldsOf(const pollux_items& items, const char* what) {
  if (items.count > POLLUX_MAX_ITEMS || (items.count > 0 && items.max_bytes == 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d eligible %s of at most %d bytes: at most %d are possible, each larger than 0",
        items.count, what, items.max_bytes, POLLUX_MAX_ITEMS));
  }
  return ItemFields{.offsets = {items.offsets, items.offsets + items.count},
                    .max_bytes = items.max_bytes};
}

uint32_t BytesOf(unsigned bytes) {
  return bytes == 0 ? rpcrdma::tirpc::kDefaultMaxBytes
                    : static_cast<uint32_t>(oncrpc::XdrRoundUp(bytes));
}

absl::Status AddProcedure(const pollux_procedure& procedure, UpperLayer* upper) {
  auto arguments = FieldsOf(procedure.arguments, "arguments");
  if (!arguments.ok()) return arguments.status();
  auto results = FieldsOf(procedure.results, "results");
  if (!results.ok()) return results.status();
  upper->binding.procedures.push_back(
      {.number = procedure.procedure,
       .max_argument_bytes = BytesOf(procedure.max_argument_bytes),
       .max_eligible_argument_bytes = procedure.arguments.count == 0 ? 0 : arguments->max_bytes,
       .max_result_bytes = BytesOf(procedure.max_result_bytes),
       .max_eligible_result_bytes = procedure.results.count == 0 ? 0 : results->max_bytes,
       .max_eligible_arguments = procedure.arguments.count,
       .max_eligible_results = procedure.results.count,
       .idempotent = procedure.idempotent != 0});
  upper->items.push_back({.procedure = procedure.procedure,
                          .arguments = *std::move(arguments),
                          .results = *std::move(results)});
  return absl::OkStatus();
}

}  // namespace

absl::Status StateBinding(const pollux_program& program) {
  UpperLayer upper = UpperLayer::Default(program.program, program.version);
  for (unsigned i = 0; i < program.procedure_count; ++i) {
    absl::Status status = AddProcedure(program.procedures[i], &upper);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("program %#x, procedure %d: %s", program.program,
                          program.procedures[i].procedure, status.message()));
    }
  }
  if (absl::Status status = upper.binding.Validate(); !status.ok()) return status;
  BindingTable& table = Stated();
  const std::lock_guard<std::mutex> lock(table.mutex);
  table.stated.insert_or_assign({program.program, program.version}, std::move(upper));
  return absl::OkStatus();
}

UpperLayer FindBinding(uint32_t program, uint32_t version) {
  BindingTable& table = Stated();
  const std::lock_guard<std::mutex> lock(table.mutex);
  const auto found = table.stated.find({program, version});
  return found == table.stated.end() ? UpperLayer::Default(program, version) : found->second;
}

}  // namespace pollux::tools
