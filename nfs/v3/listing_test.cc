#include "nfs/v3/listing.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nfs/v3/samples_for_test.h"

namespace pollux::nfs {
namespace {

ReaddirplusOk Plus(const Samples& samples, bool attributes, bool handle, size_t entries) {
  ReaddirplusOk list;
  if (attributes) list.dir_attributes = samples.fattr;
  for (size_t i = 0; i < entries; ++i) {
    Entryplus3 entry{.fileid = i, .name = {"name"}, .cookie = i + 1};
    if (attributes) entry.name_attributes = samples.fattr;
    if (handle) entry.name_handle = samples.handle;
    list.entries.items.push_back(entry);
  }
  return list;
}

TEST(ListingTest, ComputedSizesMatchTheEncoding) {
  const Samples samples;
  for (const bool attributes : {false, true}) {
    for (const bool handle : {false, true}) {
      const ReaddirplusOk list = Plus(samples, attributes, handle, 3);
      EXPECT_EQ(Encoding(list).size(),
                EmptyListBytes(attributes) + 3 * ListedBytes(list.entries.items[0]));
    }
  }
  ReaddirOk list;
  for (const char* name : {"a", "abcd", "abcde"}) {
    const size_t before = Encoding(list).size();
    list.entries.items.push_back({.fileid = 1, .name = {name}, .cookie = 2});
    EXPECT_EQ(Encoding(list).size(), before + ListedBytes(list.entries.items.back()));
  }
}

TEST(ListingTest, ListsRoundTrip) {
  const Samples samples;
  ReaddirplusRes result{.resok = Plus(samples, true, true, 7)};
  result.resok.cookieverf = 0x0102030405060708;
  result.resok.eof = true;
  const std::vector<uint8_t> bytes = Encoding(result);
  ReaddirplusRes decoded;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(bytes), &decoded));
  EXPECT_TRUE(decoded.resok.eof);
  EXPECT_EQ(decoded.resok.cookieverf, result.resok.cookieverf);
  ASSERT_EQ(decoded.resok.entries.items.size(), 7u);
  EXPECT_EQ(decoded.resok.entries.items[6].cookie, 7u);
  EXPECT_EQ(decoded.resok.entries.items[6].name_handle, samples.handle);
  EXPECT_EQ(decoded.resok.entries.items[6].name_attributes, samples.fattr);
}

TEST(ListingTest, AListAboveMaxEntriesDoesNotDecode) {
  ReaddirOk list;
  list.entries.items.assign(kMaxEntries, {.fileid = 1, .name = {"a"}, .cookie = 2});
  EXPECT_EQ(ListedBytes(list.entries.items[0]), kMinEntryBytes);
  std::vector<uint8_t> bytes = Encoding(list);
  ReaddirOk decoded;
  EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(bytes), &decoded));

  // The word after the last entry says that another comes.
  const std::vector<uint8_t> entry(bytes.end() - 8 - kMinEntryBytes, bytes.end() - 8);
  bytes.insert(bytes.end() - 8, entry.begin(), entry.end());
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(bytes), &decoded));
}

TEST(ListingTest, AMissingNextEntryDoesNotDecode) {
  ReaddirOk list;
  list.entries.items.push_back({.fileid = 1, .name = {"a"}, .cookie = 2});
  std::vector<uint8_t> bytes = Encoding(list);
  StoreBe32(&bytes[bytes.size() - 8], 1);
  ReaddirOk decoded;
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(bytes), &decoded));
}

}  // namespace
}  // namespace pollux::nfs
