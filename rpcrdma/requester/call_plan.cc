#include "rpcrdma/requester/call_plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "rpcrdma/wire/header.h"

namespace pollux::rpcrdma {
namespace {

constexpr size_t kEmptyWriteChunkBytes = 8;                                 // marker, count
constexpr size_t kWriteChunkBytes = kEmptyWriteChunkBytes + kSegmentBytes;  // and one segment
constexpr size_t kReplyChunkBytes = 4 + kSegmentBytes;                      // count, one segment

// RFC 8166 section 3.4.2 and section 6.1: only eligible items may be reduced.
absl::Status CheckBinding(const oncrpc::CallRequest& request, const oncrpc::ProgramBinding& program,
                          const oncrpc::ProcedureBinding& binding) {
  size_t position = 0;
  size_t largest = 0;
  bool in_order = request.arguments.size() % 4 == 0;
  for (const oncrpc::EligibleItem& item : request.items) {
    in_order &= item.position % 4 == 0 && item.position >= position &&
                item.position <= request.arguments.size();
    position = item.position;
    largest = std::max(largest, item.bytes.size());
  }
  if (!in_order) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: its items are not in order at XDR positions of its arguments",
        request.procedure, program.program));
  }
  const uint32_t items =
      binding.max_eligible_argument_bytes > 0 ? binding.max_eligible_arguments : 0;
  const uint32_t buffers = binding.max_eligible_result_bytes > 0 ? binding.max_eligible_results : 0;
  if (request.arguments.size() <= binding.max_argument_bytes &&
      largest <= binding.max_eligible_argument_bytes && request.items.size() <= items &&
      request.item_buffers.size() <= buffers) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "procedure %d of program %#x: %d bytes of arguments, %d items of at most %d bytes, and room "
      "for %d results do not fit its binding (%d, %d of %d, %d)",
      request.procedure, program.program, request.arguments.size(), request.items.size(), largest,
      request.item_buffers.size(), binding.max_argument_bytes, items,
      binding.max_eligible_argument_bytes, buffers));
}

// RFC 8166 section 3.4.3 and section 3.4.5: on the wire positions and lengths have 32 bits.
absl::Status CheckSizes(const oncrpc::CallRequest& request, const CallTerms& terms,
                        const CallPlan& plan) {
  uint64_t stream = terms.call_header_bytes + request.arguments.size();
  for (const oncrpc::EligibleItem& item : request.items) {
    stream += oncrpc::XdrRoundUp(item.bytes.size());
  }
  uint64_t room = plan.reply_chunk ? request.reply_buffer.size() : 0;
  for (const absl::Span<uint8_t>& buffer : request.item_buffers) {
    room = std::max<uint64_t>(room, plan.write_chunks ? buffer.size() : 0);
  }
  if (stream <= UINT32_MAX && room <= UINT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "procedure %d of program %#x: a call of %d bytes, with buffers of up to %d bytes for its "
      "results; both must be less than 4 GiB",
      request.procedure, terms.binding->program, stream, room));
}

// Bytes of the results that have a buffer, of the others, and of the chunks that offer the buffers.
struct ResultSizes {
  size_t placed = 0;
  size_t in_stream = 0;
  size_t chunks = 0;
};

ResultSizes SizesOfResults(const oncrpc::CallRequest& request, const CallTerms& terms,
                           const oncrpc::ProcedureBinding& binding) {
  ResultSizes sizes;
  if (!terms.may_reduce) {
    sizes.in_stream = size_t{binding.max_eligible_results} *
                      oncrpc::XdrRoundUp(binding.max_eligible_result_bytes);
    return sizes;
  }
  if (binding.max_eligible_result_bytes == 0) return sizes;
  for (size_t i = 0; i < binding.max_eligible_results; ++i) {
    const size_t room = i < request.item_buffers.size() ? request.item_buffers[i].size() : 0;
    sizes.placed += oncrpc::XdrRoundUp(room);
    sizes.in_stream += room == 0 ? oncrpc::XdrRoundUp(binding.max_eligible_result_bytes) : 0;
  }
  for (const absl::Span<uint8_t>& buffer : request.item_buffers) {
    sizes.chunks += buffer.empty() ? kEmptyWriteChunkBytes : kWriteChunkBytes;
  }
  return sizes;
}

// Read chunks for the largest items, until the rest fits. `header` is what the header takes.
void ChooseReadChunks(const oncrpc::CallRequest& request, const CallTerms& terms, size_t header,
                      CallPlan* plan) {
  const size_t payload = terms.call_header_bytes + request.arguments.size();
  size_t items = 0;
  for (const oncrpc::EligibleItem& item : request.items)
    items += oncrpc::XdrRoundUp(item.bytes.size());
  while (items > 0 && header + payload + items > terms.call_threshold) {
    size_t largest = request.items.size();
    for (size_t i = 0; i < request.items.size(); ++i) {
      if ((plan->read_chunks >> i & 1) != 0) continue;
      if (largest == request.items.size() ||
          request.items[i].bytes.size() > request.items[largest].bytes.size()) {
        largest = i;
      }
    }
    plan->read_chunks |= 1u << largest;
    items -= oncrpc::XdrRoundUp(request.items[largest].bytes.size());
    header += kReadSegmentBytes;
  }
  // RFC 8166 section 3.5.3
  plan->long_call = header + payload + items > terms.call_threshold;
}

}  // namespace

absl::StatusOr<CallPlan> PlanCall(const oncrpc::CallRequest& request, const CallTerms& terms) {
  const oncrpc::ProgramBinding& program = *terms.binding;
  const oncrpc::ProcedureBinding* binding = program.Find(request.procedure);
  if (binding == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat("program %#x has no binding for procedure %d",
                                                      program.program, request.procedure));
  }
  absl::Status status = CheckBinding(request, program, *binding);
  if (!status.ok()) return status;

  // RFC 8166 section 8.2.2.3: what is protected is protected as a whole.
  if (!terms.may_reduce && !request.items.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: under RPCSEC_GSS integrity or privacy no item can be sent "
        "separately; encode all of them in the arguments",
        request.procedure, program.program));
  }

  CallPlan plan;
  size_t header = kMinHeaderBytes;
  const ResultSizes results = SizesOfResults(request, terms, *binding);
  // RFC 8166 section 4.3.3: by the maximum possible size of transport header and payload.
  size_t longest = oncrpc::kReplyHeaderBytes +
                   request.max_result_bytes.value_or(binding->max_result_bytes) +
                   results.in_stream + results.placed;
  if (kMinHeaderBytes + longest > terms.reply_threshold) {
    plan.write_chunks = results.placed > 0;
    if (plan.write_chunks) {
      longest -= results.placed;
      header += results.chunks;
    }
    plan.reply_chunk = header + longest > terms.reply_threshold;
    header += plan.reply_chunk ? kReplyChunkBytes : 0;
  }
  if (plan.reply_chunk && request.reply_buffer.size() < longest) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: the reply can take %d bytes; the reply buffer has %d",
        request.procedure, program.program, longest, request.reply_buffer.size()));
  }
  ChooseReadChunks(request, terms, header, &plan);
  if (absl::Status sizes = CheckSizes(request, terms, plan); !sizes.ok()) return sizes;
  // A long call's RPC header lies behind the transport header, in the same buffer.
  constexpr size_t kMaxReadListBytes = (oncrpc::kMaxItems + 2) * kReadSegmentBytes;
  if (plan.long_call &&
      header + kMaxReadListBytes + terms.call_header_bytes > terms.call_threshold) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: the call's chunk lists and its RPC header of %d bytes do not "
        "fit a message of %d",
        request.procedure, program.program, terms.call_header_bytes, terms.call_threshold));
  }
  // RFC 8167 section 5.3: without chunks only Short Messages.
  if (!terms.chunks && plan.has_chunks()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "procedure %d of program %#x: chunks are not possible in this direction, but the call or "
        "its reply can be larger than a message (%d and %d bytes)",
        request.procedure, program.program, terms.call_threshold, terms.reply_threshold));
  }
  return plan;
}

void PlainCalls::Reset(const CallTerms& terms) {
  procedures_.clear();
  const size_t headers = kMinHeaderBytes + terms.call_header_bytes;
  if (headers > terms.call_threshold) return;
  for (const oncrpc::ProcedureBinding& binding : terms.binding->procedures) {
    const absl::StatusOr<CallPlan> plan = PlanCall({.procedure = binding.number}, terms);
    if (!plan.ok() || plan->has_chunks()) continue;
    procedures_.push_back({.number = binding.number,
                           .most_argument_bytes = std::min<size_t>(
                               binding.max_argument_bytes, terms.call_threshold - headers)});
  }
}

}  // namespace pollux::rpcrdma
