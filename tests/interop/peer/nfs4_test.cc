// What is encoded is what RFC 8881 has, and what is cut short is refused.
#include "tests/interop/peer/nfs4.h"

#include <vector>

#include "gtest/gtest.h"
#include "stack/base/byte_order.h"
#include "tests/interop/peer/nfs4_callback.h"

namespace pollux::nfs4 {
namespace {

std::vector<uint8_t> Words(std::initializer_list<uint32_t> words) {
  std::vector<uint8_t> bytes(4 * words.size());
  size_t at = 0;
  for (const uint32_t word : words) {
    StoreBe32(&bytes[at], word);
    at += 4;
  }
  return bytes;
}

template <class T>
std::vector<uint8_t> Encoded(const T& value) {
  std::vector<uint8_t> bytes(2048);
  const oncrpc::Encoded encoded = oncrpc::Encode(value, absl::MakeSpan(bytes));
  EXPECT_TRUE(encoded.ok);
  return {encoded.stream.begin(), encoded.stream.end()};
}

template <class T>
bool Decoded(const std::vector<uint8_t>& bytes, T* value) {
  return oncrpc::Decode(oncrpc::XdrReader(bytes), value);
}

// That `bytes` hold a T and no shorter part of them does.
template <class T>
T DecodedWhole(const std::vector<uint8_t>& bytes) {
  for (size_t size = 0; size < bytes.size(); size += 4) {
    T value;
    EXPECT_FALSE(Decoded({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}, &value))
        << size;
  }
  T value;
  EXPECT_TRUE(Decoded(bytes, &value));
  return value;
}

const SessionId kSession{{0x0102030405060708, 0x1112131415161718}};
const Stateid kStateid{.seqid = 7, .other = 0x2122232425262728, .other_end = 0x31323334};

TEST(Nfs4, ASessionCompoundIsEncoded) {
  const Compound<Sequence, Putrootfh, Getfh> compound{
      {Sequence{.session = kSession, .sequenceid = 3}, {}, {}}};
  EXPECT_EQ(Encoded(compound),
            Words({0, 1, 3,  // tag, minor version, operations
                   53, 0x01020304, 0x05060708, 0x11121314, 0x15161718, 3, 0, 0, 0,  //
                   24,                                                              //
                   10}));
}

TEST(Nfs4, AnOpenByNameIsEncoded) {
  const Compound<Open> compound{
      {Open{.share_access = Open::kShareAccessRead, .clientid = 0x0A0000000B, .name = {"file"}}}};
  EXPECT_EQ(Encoded(compound), Words({0, 1, 1, 18, 0, 1, 0, 0x0A, 0x0B, 0, 0, 0, 4, 0x66696C65}));
}

TEST(Nfs4, AnOpenResultWithADelegationIsDecoded) {
  const auto opened = DecodedWhole<CompoundRes<Open, Getfh>>(
      Words({0,  0, 2,  // status, tag, results
             18, 0, 1,          0xA,        0xB,        0xC, 1, 0, 5, 0, 6, 4, 1, 0x80,  // OPEN
             1,  7, 0x21222324, 0x25262728, 0x31323334, 0,   0, 0, 0, 0,  // read delegation
             10, 0, 4,          0xFEEDBEEF}));                            // GETFH
  const OpenRes& open = std::get<0>(opened.results);
  EXPECT_EQ(open.stateid, (Stateid{.seqid = 1, .other = 0xA0000000B, .other_end = 0xC}));
  EXPECT_EQ(open.delegation.type, Delegation::kRead);
  EXPECT_EQ(open.delegation.stateid, kStateid);
  EXPECT_EQ(std::get<1>(opened.results).handle.size, 4u);
}

TEST(Nfs4, AnOpenResultWithoutADelegationIsDecoded) {
  const auto opened = DecodedWhole<CompoundRes<Open>>(
      Words({0, 0, 1, 18, 0, 1, 0, 0, 0, 1, 0, 5, 0, 6, 4, 0, 3, Delegation::kContention, 0}));
  EXPECT_EQ(std::get<0>(opened.results).delegation.type, Delegation::kNoneExt);
}

TEST(Nfs4, ResultsEndWithTheFailedOperation) {
  const auto failed = DecodedWhole<CompoundRes<Putrootfh, Open, Getfh>>(
      Words({2, 0, 2, 24, 0, 18, 2}));  // NFS4ERR_NOENT
  EXPECT_EQ(failed.status, 2u);
  EXPECT_EQ(failed.answered, 2u);
}

TEST(Nfs4, ResultsOfOtherOperationsAreRefused) {
  CompoundRes<Putrootfh, Putfh> results;
  EXPECT_FALSE(Decoded(Words({0, 0, 2, 24, 0, 10, 0}), &results));         // another operation
  EXPECT_FALSE(Decoded(Words({0, 0, 1, 24, 0}), &results));                // too few
  EXPECT_FALSE(Decoded(Words({0, 0, 3, 24, 0, 22, 0, 10, 0}), &results));  // too many
  EXPECT_FALSE(Decoded(Words({2, 0, 2, 24, 2, 22, 2}), &results));         // goes on after an error
}

TEST(Nfs4, ARecallRoundTrips) {
  const std::vector<uint8_t> bytes = Words(
      {0,  1,          0,          2,  // tag, minor version, callback_ident, operations
       11, 0x01020304, 0x05060708, 0x11121314, 0x15161718, 1, 0, 0,         0, 0,  // CB_SEQUENCE
       4,  7,          0x21222324, 0x25262728, 0x31323334, 0, 4, 0xFEEDBEEF});     // CB_RECALL
  const auto compound = DecodedWhole<CbCompound>(bytes);
  EXPECT_EQ(compound.sequence.session, kSession);
  ASSERT_TRUE(compound.recall.has_value());
  EXPECT_EQ(compound.recall->stateid, kStateid);
  EXPECT_EQ(Encoded(compound), bytes);
}

TEST(Nfs4, CallbackResultsRoundTrip) {
  const CbCompoundRes recalled{.session = kSession, .sequenceid = 1, .recalled = true};
  EXPECT_EQ(Encoded(recalled),
            Words({0, 0, 2,                                                            //
                   11, 0, 0x01020304, 0x05060708, 0x11121314, 0x15161718, 1, 0, 0, 0,  //
                   4, 0}));
  EXPECT_TRUE(DecodedWhole<CbCompoundRes>(Encoded(recalled)).recalled);
  const CbCompoundRes refused{.status = kErrBadSession, .recalled = true};
  EXPECT_EQ(Encoded(refused), Words({kErrBadSession, 0, 1, 11, kErrBadSession}));
}

}  // namespace
}  // namespace pollux::nfs4
