#include "stack/io/steering/qpn_steering.h"

#include <rte_byteorder.h>
#include <rte_flow.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "stack/wire/roce_packet.h"

namespace pollux::io {
namespace {

// Of a rule: Ethernet, IP, UDP, the byte of the BTH.
constexpr size_t kItems = 5;
// The first byte of the destination queue pair number in the BTH, which stands right behind UDP:
// after opcode, flags, P_Key (2 bytes) and a reserved byte.
constexpr int32_t kDestQpnOffset = 5;

absl::Status Unsupported(uint16_t port_id, const rte_flow_error& error) {
  return absl::UnimplementedError(
      absl::StrCat("port ", port_id, " does not sort packets by queue pair number (",
                   error.message == nullptr ? "no reason given" : error.message, ")"));
}

}  // namespace

absl::Status SteerWorkersToQueues(QpnSteering& steering, uint8_t bits, uint16_t queues) {
  for (uint16_t queue = 0; queue < queues; ++queue) {
    if (absl::Status status = steering.Direct(queue, bits, queue); !status.ok()) {
      steering.Clear();
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status FlowQpnSteering::Direct(uint32_t prefix, uint8_t bits, uint16_t queue) {
  const rte_flow_item_udp udp{.hdr = {.dst_port = rte_cpu_to_be_16(wire::kRocePort)}};
  const rte_flow_item_udp udp_mask{.hdr = {.dst_port = UINT16_MAX}};
  const auto pattern = static_cast<uint8_t>(prefix << (kMaxPrefixBits - bits));
  const auto pattern_mask = static_cast<uint8_t>(UINT8_MAX << (kMaxPrefixBits - bits));
  const rte_flow_item_raw raw{
      .relative = 1, .offset = kDestQpnOffset, .length = 1, .pattern = &pattern};
  const rte_flow_item_raw raw_mask{
      .relative = 1, .offset = -1, .length = UINT16_MAX, .pattern = &pattern_mask};
  const rte_flow_action_queue to{.index = queue};
  const std::array<rte_flow_action, 2> actions = {{
      {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
      {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr},
  }};
  const rte_flow_attr attr{.ingress = 1};
  const size_t before = rules_.size();
  for (const rte_flow_item_type ip : {RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_IPV6}) {
    const std::array<rte_flow_item, kItems> items = {{
        {.type = RTE_FLOW_ITEM_TYPE_ETH},
        {.type = ip},
        {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask},
        {.type = RTE_FLOW_ITEM_TYPE_RAW, .spec = &raw, .mask = &raw_mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    }};
    rte_flow_error error = {};
    rte_flow* rule = nullptr;
    if (rte_flow_validate(port_id_, &attr, items.data(), actions.data(), &error) == 0) {
      rule = rte_flow_create(port_id_, &attr, items.data(), actions.data(), &error);
    }
    if (rule == nullptr) {
      for (; rules_.size() > before; rules_.pop_back()) {
        (void)rte_flow_destroy(port_id_, rules_.back(), nullptr);
      }
      return Unsupported(port_id_, error);
    }
    rules_.push_back(rule);
  }
  return absl::OkStatus();
}

void FlowQpnSteering::Clear() {
  for (rte_flow* rule : rules_) (void)rte_flow_destroy(port_id_, rule, nullptr);
  rules_.clear();
}

}  // namespace pollux::io
