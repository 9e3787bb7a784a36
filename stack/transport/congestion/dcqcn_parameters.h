// The parameters of DCQCN, with the names that NIC vendors use (mlx5:
// /sys/kernel/debug/mlx5/.../cc_params and mlxconfig).
#ifndef POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_
#define POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace pollux::transport {

// The units are the vendors': rates in Mb/s, times in microseconds. The defaults are those of the
// paper (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) if it
// gives one.
struct DcqcnParameters {
  // Sender (reaction point). Rate increase:
  uint32_t rpg_time_reset = 55;          // time between two timed increases
  uint32_t rpg_byte_reset = 10'000'000;  // bytes between two increases by volume; 0: none
  uint32_t rpg_threshold = 5;            // increases of either kind that end fast recovery
  uint32_t rpg_ai_rate = 40;             // additive increase of the target rate
  uint32_t rpg_hai_rate = 400;           // hyper increase of the target rate
  uint32_t rpg_min_rate = 10;
  uint32_t rpg_max_rate = 0;  // no limit applies above it; 0: the link speed of the port
  // Rate decrease:
  uint32_t rpg_gd = 11;  // a decrease is by alpha * 1024 / 2^rpg_gd; 11 means half of alpha
  uint32_t rpg_min_dec_fac = 50;  // minimum rate after one decrease, in percent of the rate before
  // 1: every decrease sets the target rate; 0: only one that follows an increase.
  uint32_t clamp_tgt_rate = 1;
  uint32_t rate_to_set_on_first_cnp = 0;    // 0: an ordinary decrease from the maximum
  uint32_t rate_reduce_monitor_period = 4;  // minimum time between decreases
  // Alpha, in units of 1/1024, updated once per dce_tcp_rtt:
  uint32_t dce_tcp_g = 1020;  // weight of the old value: 1024 (1 - g)
  uint32_t dce_tcp_rtt = 55;
  uint32_t initial_alpha_value = 1023;
  // Receiver (notification point).
  uint32_t min_time_between_cnps = 50;  // per queue pair
  uint32_t cnp_802p_prio = 6;           // if frames are tagged
  uint32_t cnp_dscp = 48;

  // Parses "NAME=VALUE,NAME=VALUE"; an empty text gives the defaults. Returns InvalidArgument,
  // which names the wrong part and what is allowed.
  static absl::StatusOr<DcqcnParameters> Parse(std::string_view text);
  // One line per parameter with name, default and range, for a command's help.
  static std::string Help();
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_
