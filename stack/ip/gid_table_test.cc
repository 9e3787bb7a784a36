#include "stack/ip/gid_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace pollux::ip {
namespace {

GidEntry Entry(uint32_t ipv4, uint16_t vlan = kNoVlan) { return {Gid::FromIpv4(ipv4), vlan}; }

TEST(GidTableTest, AddressesKeepTheirIndices) {
  GidTable table;
  EXPECT_EQ(table.Assign(std::vector{Entry(1), Entry(2), Entry(2, 7), Entry(3), Entry(3)}), 0u);
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table.Find(Entry(2).gid, 7), 2);
  // 2 goes; 4 takes its place; 3 stays where it was.
  EXPECT_EQ(table.Assign(std::vector{Entry(4), Entry(1), Entry(3), Entry(2, 7)}), 0u);
  EXPECT_EQ(table.at(1), Entry(4));
  EXPECT_EQ(table.at(3), Entry(3));
  EXPECT_EQ(table.Find(Entry(2).gid, kNoVlan), -1);
  EXPECT_EQ(table.Assign(std::vector{Entry(3)}), 0u);
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table.at(0), GidEntry{});
  EXPECT_EQ(table.at(3), Entry(3));
  EXPECT_EQ(table.at(4), GidEntry{});
}

TEST(GidTableTest, ContainsFollowsEveryChange) {
  GidTable table;
  EXPECT_FALSE(table.Contains(Entry(1).gid, kNoVlan));
  EXPECT_FALSE(table.Contains(Gid{}, kNoVlan));
  table.Assign(std::vector{Entry(1), Entry(2)});
  EXPECT_TRUE(table.Contains(Entry(2).gid, kNoVlan));
  EXPECT_TRUE(table.Contains(Entry(1).gid, kNoVlan));
  EXPECT_FALSE(table.Contains(Entry(1).gid, 7));
  table.Assign(std::vector{Entry(2)});
  EXPECT_FALSE(table.Contains(Entry(1).gid, kNoVlan));
  EXPECT_TRUE(table.Contains(Entry(2).gid, kNoVlan));
  // An empty place is nobody's address.
  EXPECT_FALSE(table.Contains(Gid{}, kNoVlan));
}

TEST(GidTableTest, HasVlanIsTrueOnlyForVlansOfEntries) {
  GidTable table;
  EXPECT_FALSE(table.HasVlan(kNoVlan));
  table.Assign(std::vector{Entry(1), GidEntry{.gid = Entry(2).gid, .vlan = 7}});
  EXPECT_TRUE(table.HasVlan(kNoVlan));
  EXPECT_TRUE(table.HasVlan(7));
  EXPECT_FALSE(table.HasVlan(8));
  table.Assign(std::vector{Entry(1)});
  EXPECT_FALSE(table.HasVlan(7));
}

TEST(GidTableTest, EntriesAboveTheMaximumAreLeftOut) {
  GidTable table;
  std::vector<GidEntry> many;
  for (uint32_t i = 1; i <= GidTable::kMaxGids; ++i) many.push_back(Entry(i));
  EXPECT_EQ(table.Assign(many), 0u);
  many.push_back(Entry(999));
  EXPECT_EQ(table.Assign(many), 1u);
  EXPECT_EQ(table.Find(Entry(999).gid, kNoVlan), -1);
  EXPECT_EQ(table.size(), GidTable::kMaxGids);
}

}  // namespace
}  // namespace pollux::ip
