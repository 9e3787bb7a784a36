#include "tests/bench/peer_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/bench/passes.h"

namespace pollux::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program that python3 runs in place of peers.py.
std::string Program(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/peer.py";
  std::ofstream(path) << text;
  return path;
}

TEST(PeerLoadTest, FiguresAndMissingPeersAreRecorded) {
  const std::string program = Program(
      "import json, sys\n"
      "print(json.dumps({'figures': {'a': {'unit': 'us', 'value': float(sys.argv[3])}},\n"
      "                  'missing': {sys.argv[1]: 'not installed'}}))\n");
  Figures figures;
  for (const double scale : {0.5, 2.0}) {
    EXPECT_TRUE(RecordPeer(program, "ucx", scale, figures).ok());
  }
  EXPECT_EQ(figures.series.at("a").unit, "us");
  EXPECT_THAT(figures.series.at("a").values, ElementsAre(0.5, 2.0));
  EXPECT_EQ(figures.missing.at("ucx"), "not installed");
}

TEST(PeerLoadTest, TheErrorNamesAFailedProgram) {
  Figures figures;
  const std::string fails = Program("raise SystemExit(1)\n");
  EXPECT_THAT(RecordPeer(fails, "qperf", 1, figures).message(), HasSubstr("peer.py qperf"));
  const std::string babbles = Program("print('hello')\n");
  EXPECT_THAT(RecordPeer(babbles, "qperf", 1, figures).message(), HasSubstr("hello"));
  EXPECT_FALSE(RecordPeer("/nonexistent/peers.py", "qperf", 1, figures).ok());
  EXPECT_TRUE(figures.series.empty());
}

TEST(PeerLoadTest, AFailedProgramDoesNotEndAPass) {
  Figures figures;
  const std::string fails = Program("raise SystemExit(1)\n");
  for (const Wire wire : {Wire::kRing, Wire::kMemif, Wire::kAfPacket}) {
    EXPECT_TRUE(RunPass(wire, {.parts = "ucx", .peers = fails}, figures).ok());
  }
  EXPECT_THAT(figures.missing.at("ucx"), HasSubstr("peer.py ucx"));
}

}  // namespace
}  // namespace pollux::bench
