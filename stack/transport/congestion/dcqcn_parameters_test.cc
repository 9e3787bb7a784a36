#include "stack/transport/congestion/dcqcn_parameters.h"

#include <gtest/gtest.h>

namespace pollux::transport {
namespace {

std::string ErrorOf(std::string_view text) {
  const auto parsed = DcqcnParameters::Parse(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(DcqcnParametersTest, AnEmptyTextGivesTheDefaults) {
  const auto parsed = DcqcnParameters::Parse("");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->rpg_ai_rate, DcqcnParameters().rpg_ai_rate);
  EXPECT_EQ(parsed->cnp_dscp, 48u);
}

TEST(DcqcnParametersTest, NamesAreThoseOfTheVendor) {
  const auto parsed = DcqcnParameters::Parse(
      "rpg_time_reset=300,rpg_byte_reset=32767,rpg_threshold=1,rpg_ai_rate=5,rpg_hai_rate=50,"
      "rpg_min_rate=1,rpg_max_rate=1000,rpg_gd=10,rpg_min_dec_fac=25,clamp_tgt_rate=0,"
      "rate_to_set_on_first_cnp=800,rate_reduce_monitor_period=9,dce_tcp_g=1019,dce_tcp_rtt=2,"
      "initial_alpha_value=7,min_time_between_cnps=0,cnp_802p_prio=5,cnp_dscp=46");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->rpg_time_reset, 300u);
  EXPECT_EQ(parsed->rpg_byte_reset, 32767u);
  EXPECT_EQ(parsed->rpg_threshold, 1u);
  EXPECT_EQ(parsed->rpg_ai_rate, 5u);
  EXPECT_EQ(parsed->rpg_hai_rate, 50u);
  EXPECT_EQ(parsed->rpg_min_rate, 1u);
  EXPECT_EQ(parsed->rpg_max_rate, 1000u);
  EXPECT_EQ(parsed->rpg_gd, 10u);
  EXPECT_EQ(parsed->rpg_min_dec_fac, 25u);
  EXPECT_EQ(parsed->clamp_tgt_rate, 0u);
  EXPECT_EQ(parsed->rate_to_set_on_first_cnp, 800u);
  EXPECT_EQ(parsed->rate_reduce_monitor_period, 9u);
  EXPECT_EQ(parsed->dce_tcp_g, 1019u);
  EXPECT_EQ(parsed->dce_tcp_rtt, 2u);
  EXPECT_EQ(parsed->initial_alpha_value, 7u);
  EXPECT_EQ(parsed->min_time_between_cnps, 0u);
  EXPECT_EQ(parsed->cnp_802p_prio, 5u);
  EXPECT_EQ(parsed->cnp_dscp, 46u);
}

TEST(DcqcnParametersTest, ErrorsNameTheAllowedValues) {
  EXPECT_EQ(ErrorOf("rpg_ai_rate"), "'rpg_ai_rate' is not NAME=VALUE, as in rpg_ai_rate=40");
  EXPECT_EQ(ErrorOf("cnp_dscp=64"), "cnp_dscp=64: a number from 0 to 63 is allowed");
  EXPECT_EQ(ErrorOf("rpg_gd=-1"), "rpg_gd=-1: a number from 10 to 15 is allowed");
  EXPECT_EQ(ErrorOf("rpg_min_rate=0"), "rpg_min_rate=0: a number from 1 to 1000000 is allowed");
  EXPECT_EQ(ErrorOf("rpg_max_rate=5,rpg_min_rate=6"), "rpg_max_rate=5 is below rpg_min_rate=6");
  EXPECT_NE(ErrorOf("alpha=1").find("the parameters are rpg_time_reset, rpg_byte_reset"),
            std::string::npos);
}

TEST(DcqcnParametersTest, TheHelpTextParses) {
  std::string help = DcqcnParameters::Help();
  for (char& c : help) c = c == '\n' ? ',' : c;
  EXPECT_TRUE(DcqcnParameters::Parse(help).ok()) << help;
}

}  // namespace
}  // namespace pollux::transport
