#include "rpcrdma/tirpc/upper_layer.h"

#include <algorithm>

#include "oncrpc/rpc_message.h"
#include "oncrpc/xdr.h"

namespace pollux::rpcrdma::tirpc {
namespace {

const ProcedureItems& ItemsOf(const std::vector<ProcedureItems>& all, uint32_t procedure) {
  static const ProcedureItems* const none = new ProcedureItems;
  for (const ProcedureItems& items : all) {
    if (items.procedure == procedure) return items;
  }
  return *none;
}

uint64_t InStream(uint32_t bytes, uint32_t item_bytes, uint32_t items) {
  return bytes + uint64_t{items} * oncrpc::XdrRoundUp(item_bytes) + kMaxProtectionBytes;
}

uint64_t ArgumentBytes(const oncrpc::ProcedureBinding& row) {
  return InStream(row.max_argument_bytes, row.max_eligible_argument_bytes,
                  row.max_eligible_arguments);
}

uint64_t ResultBytes(const oncrpc::ProcedureBinding& row) {
  return InStream(row.max_result_bytes, row.max_eligible_result_bytes, row.max_eligible_results);
}

uint32_t Bounded(uint64_t bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, oncrpc::kMaxItemBytes));
}

void AddProtection(oncrpc::ProcedureBinding* row) {
  row->max_argument_bytes = Bounded(ArgumentBytes(*row));
  row->max_result_bytes = Bounded(row->max_result_bytes + uint64_t{kMaxProtectionBytes});
}

}  // namespace

UpperLayer UpperLayer::Default(uint32_t program, uint32_t version) {
  UpperLayer upper;
  upper.binding.program = program;
  upper.binding.version = version;
  upper.binding.others = oncrpc::ProcedureBinding{.max_argument_bytes = kDefaultMaxBytes,
                                                  .max_result_bytes = kDefaultMaxBytes};
  return upper;
}

const ItemFields& UpperLayer::ArgumentsOf(uint32_t procedure) const {
  return ItemsOf(items, procedure).arguments;
}

const ItemFields& UpperLayer::ResultsOf(uint32_t procedure) const {
  return ItemsOf(items, procedure).results;
}

oncrpc::ProgramBinding UpperLayer::WithProtection() const {
  oncrpc::ProgramBinding with = binding;
  for (oncrpc::ProcedureBinding& row : with.procedures) {
    if (row.number == 0) {
      row.max_argument_bytes = std::max(row.max_argument_bytes, kMaxTokenBytes);
      row.max_result_bytes = std::max(row.max_result_bytes, kMaxTokenBytes);
    }
    AddProtection(&row);
  }
  if (with.others.has_value()) AddProtection(&*with.others);
  return with;
}

uint32_t UpperLayer::LargestMessage() const {
  uint64_t largest = kMaxTokenBytes;
  const auto count = [&largest](const oncrpc::ProcedureBinding& row) {
    largest = std::max({largest, ArgumentBytes(row), ResultBytes(row)});
  };
  for (const oncrpc::ProcedureBinding& row : binding.procedures) count(row);
  if (binding.others.has_value()) count(*binding.others);
  // A long call or reply has its RPC header there too.
  return Bounded(largest + 2 * (8 + oncrpc::kMaxAuthBytes) + oncrpc::kReplyHeaderBytes);
}

}  // namespace pollux::rpcrdma::tirpc
