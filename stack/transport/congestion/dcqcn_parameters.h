// The parameters of DCQCN, under the names of NIC vendors (mlx5:
// /sys/kernel/debug/mlx5/.../cc_params and mlxconfig).
#ifndef POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_
#define POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace pollux::transport {

// Units as the vendors have them: rates in Mb/s, times in microseconds. The defaults are those of
// the paper (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) where
// it names one.
struct DcqcnParameters {
  // Of the sender, the reaction point. Rate increase:
  uint32_t rpg_time_reset = 55;          // between increases by time
  uint32_t rpg_byte_reset = 10'000'000;  // bytes between increases by volume; 0: none
  uint32_t rpg_threshold = 5;            // increases of either kind that end fast recovery
  uint32_t rpg_ai_rate = 40;             // additive increase of the target
  uint32_t rpg_hai_rate = 400;           // hyper increase of the target
  uint32_t rpg_min_rate = 10;
  uint32_t rpg_max_rate = 0;  // above it nothing is limited; 0: the speed of the port
  // Rate decrease:
  uint32_t rpg_gd = 11;           // by alpha * 1024 / 2^rpg_gd: 11 is half of alpha
  uint32_t rpg_min_dec_fac = 50;  // percent of the rate that one decrease leaves at least
  uint32_t clamp_tgt_rate = 1;    // every decrease sets the target; 0: those after an increase
  uint32_t rate_to_set_on_first_cnp = 0;    // 0: a decrease from the maximum, like any other
  uint32_t rate_reduce_monitor_period = 4;  // between decreases
  // Alpha, in units of 1/1024, once in dce_tcp_rtt:
  uint32_t dce_tcp_g = 1020;  // the weight of what it was: 1024 (1 - g)
  uint32_t dce_tcp_rtt = 55;
  uint32_t initial_alpha_value = 1023;
  // Of the receiver, the notification point.
  uint32_t min_time_between_cnps = 50;  // of a queue pair
  uint32_t cnp_802p_prio = 6;           // where frames are tagged
  uint32_t cnp_dscp = 48;

  // From "NAME=VALUE,NAME=VALUE"; empty: the defaults. InvalidArgument names what was wrong and
  // what is allowed.
  static absl::StatusOr<DcqcnParameters> Parse(std::string_view text);
  // One line a parameter: name, default, range, for a command's help.
  static std::string Help();
};

}  // namespace pollux::transport

#endif  // POLLUX_STACK_TRANSPORT_CONGESTION_DCQCN_PARAMETERS_H_
