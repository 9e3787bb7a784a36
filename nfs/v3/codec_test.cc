#include "oncrpc/codec.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nfs/mount/mount.h"
#include "nfs/v3/samples_for_test.h"
#include "oncrpc/auth_sys.h"
#include "oncrpc/xdr.h"

namespace pollux::nfs {
namespace {

using Bytes = std::vector<uint8_t>;

// Decodes what was encoded, with its eligible item in a chunk, and encodes that again.
template <class T>
void ExpectRoundTrip(const T& value) {
  Bytes eligible;
  const Bytes stream = Encoding(value, &eligible);
  ASSERT_FALSE(stream.empty());
  const oncrpc::ReducedItem item{.bytes = eligible};
  const absl::Span<const oncrpc::ReducedItem> items(&item, eligible.empty() ? 0 : 1);
  T decoded;
  ASSERT_TRUE(oncrpc::Decode(oncrpc::XdrReader(stream, items), &decoded));
  Bytes again;
  EXPECT_EQ(Encoding(decoded, &again), stream);
  EXPECT_EQ(again, eligible);
}

// Nothing that is cut short, or goes on, decodes.
template <class T>
void ExpectExactLength(const T& value) {
  Bytes eligible;
  Bytes stream = Encoding(value, &eligible);
  const oncrpc::ReducedItem item{.bytes = eligible};
  const absl::Span<const oncrpc::ReducedItem> items(&item, eligible.empty() ? 0 : 1);
  T decoded;
  for (size_t n = 0; n < stream.size(); n += 4) {
    EXPECT_FALSE(
        oncrpc::Decode(oncrpc::XdrReader(absl::MakeSpan(stream).first(n), items), &decoded))
        << n;
  }
  stream.resize(stream.size() + 4);
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(stream, items), &decoded));
}

// Every word of the stream in turn replaced by values that lie about lengths and kinds.
template <class T>
void ExpectNoHarm(const T& value) {
  const Bytes stream = Encoding(value);
  for (size_t at = 0; at + 4 <= stream.size(); at += 4) {
    for (uint32_t word : {0u, 2u, 0xFFu, 0x7FFFFFFFu, 0xFFFFFFFDu, 0xFFFFFFFFu}) {
      Bytes bytes = stream;
      StoreBe32(&bytes[at], word);
      T decoded;
      if (!oncrpc::Decode(oncrpc::XdrReader(bytes), &decoded)) continue;
      // What was taken is within its bounds: it can be sent.
      EXPECT_FALSE(Encoding(decoded).empty()) << at << " " << word;
    }
  }
}

TEST(CodecTest, EveryProcedureRoundTrips) {
  const Samples samples;
  samples.ForEach([](Procedure procedure, const auto& arguments, const auto& results) {
    SCOPED_TRACE(static_cast<uint32_t>(procedure));
    ExpectRoundTrip(arguments);
    ExpectRoundTrip(results);
    auto failed = results;
    failed.status = Nfsstat3::kAcces;
    ExpectRoundTrip(failed);
  });
}

TEST(CodecTest, RejectsTruncatedAndOverlongInput) {
  const Samples samples;
  samples.ForEach([](Procedure procedure, const auto& arguments, const auto& results) {
    SCOPED_TRACE(static_cast<uint32_t>(procedure));
    ExpectExactLength(arguments);
    ExpectExactLength(results);
  });
}

TEST(CodecTest, AnyCorruptedWordIsRejectedOrHarmless) {
  const Samples samples;
  samples.ForEach([](Procedure procedure, const auto& arguments, const auto& results) {
    SCOPED_TRACE(static_cast<uint32_t>(procedure));
    ExpectNoHarm(arguments);
    ExpectNoHarm(results);
  });
}

TEST(CodecTest, EligibleItemsAreAlsoReadFromTheStream) {
  const std::string text = "odd";
  const Bytes stream = {0, 0, 0, 3, 'o', 'd', 'd', 0};
  Nfspath3 path;
  oncrpc::Decoder decoder{oncrpc::XdrReader(stream)};
  decoder(path);
  EXPECT_TRUE(decoder.AtEnd());
  EXPECT_EQ(std::string(path.bytes.begin(), path.bytes.end()), text);
}

TEST(CodecTest, ANameAboveTheLimitIsNeitherEncodedNorDecoded) {
  Samples samples;
  Diropargs3 where = samples.where;
  const std::string name(kMaxFilename3 + 1, 'x');
  where.name.text = name;
  EXPECT_TRUE(Encoding(where).empty());

  Bytes stream(4 + oncrpc::XdrRoundUp(name.size()));
  StoreBe32(stream.data(), static_cast<uint32_t>(name.size()));
  Filename3 decoded;
  oncrpc::Decoder decoder{oncrpc::XdrReader(stream)};
  decoder(decoded);
  EXPECT_FALSE(decoder.AtEnd());
}

TEST(CodecTest, EncodingIntoATooSmallBufferFails) {
  Bytes buffer(Encoding(Samples().wcc).size() - 4);
  EXPECT_FALSE(oncrpc::Encode(Samples().wcc, absl::MakeSpan(buffer)).ok);
}

// RFC 1813 section 2.5
TEST(CodecTest, FileTypesHaveTheNumbersOfTheSpecification) {
  const std::pair<Ftype3, uint32_t> kNumbers[] = {
      {Ftype3::kReg, 1}, {Ftype3::kDir, 2},  {Ftype3::kBlk, 3}, {Ftype3::kChr, 4},
      {Ftype3::kLnk, 5}, {Ftype3::kSock, 6}, {Ftype3::kFifo, 7}};
  Fattr3 fattr = Samples().fattr;
  for (const auto& [type, number] : kNumbers) {
    fattr.type = type;
    EXPECT_EQ(LoadBe32(Encoding(fattr).data()), number);
  }
}

TEST(CodecTest, AnUnknownTypeIsRefusedAndAnUnknownStatusKept) {
  Bytes stream = Encoding(Samples().fattr);
  StoreBe32(stream.data(), 8);
  Fattr3 fattr;
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(stream), &fattr));

  const Bytes refused = {0, 0, 0x30, 0x39};
  GetattrRes result;
  EXPECT_TRUE(oncrpc::Decode(oncrpc::XdrReader(refused), &result));
  EXPECT_EQ(static_cast<uint32_t>(result.status), 12345u);
}

TEST(CodecTest, ArraysAndListsAboveTheLimitAreRefused) {
  oncrpc::AuthSys credential;
  credential.gids.items.assign(oncrpc::kMaxAuthSysGids, 7);
  ExpectRoundTrip(credential);
  Bytes stream = Encoding(credential);
  StoreBe32(&stream[16], oncrpc::kMaxAuthSysGids + 1);
  stream.resize(stream.size() + 4);
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(stream), &credential));

  oncrpc::LinkedList<Groupnode, 2> groups;
  groups.items.assign(2, Groupnode{{"g"}});
  ExpectRoundTrip(groups);
  oncrpc::LinkedList<Groupnode, 3> more;
  more.items.assign(3, Groupnode{{"g"}});
  EXPECT_FALSE(oncrpc::Decode(oncrpc::XdrReader(Encoding(more)), &groups));
  groups.items.assign(3, Groupnode{{"g"}});
  EXPECT_TRUE(Encoding(groups).empty());
}

TEST(CodecTest, FileHandlesCompareByTheirBytes) {
  const Bytes bytes(kFhsize3, 1);
  const NfsFh3 whole = *NfsFh3::From(bytes);
  EXPECT_EQ(whole, *NfsFh3::From(bytes));
  EXPECT_NE(whole, *NfsFh3::From(absl::MakeSpan(bytes).first(kFhsize3 - 1)));
  EXPECT_FALSE(NfsFh3::From(Bytes(kFhsize3 + 1)).has_value());
}

}  // namespace
}  // namespace pollux::nfs
