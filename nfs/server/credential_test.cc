#include "nfs/server/credential.h"

#include <gtest/gtest.h>

#include <vector>

#include "nfs/codec.h"

namespace pollux::nfs {
namespace {

constexpr rpcrdma::AuthFlavor kSys = rpcrdma::AuthFlavor::kSys;

std::vector<uint8_t> Body(uint32_t uid, uint32_t gid, std::initializer_list<uint32_t> gids) {
  AuthSys sys{.machinename = {"client"}, .uid = uid, .gid = gid};
  for (const uint32_t id : gids) sys.gids.items.push_back(id);
  std::vector<uint8_t> space(rpcrdma::kMaxAuthBytes);
  const Encoded encoded = Encode(sys, absl::MakeSpan(space));
  EXPECT_TRUE(encoded.ok);
  space.resize(encoded.stream.size());
  return space;
}

TEST(CredentialTest, IdsAreTheClients) {
  const std::vector<uint8_t> body = Body(1000, 100, {4, 24, 1000});
  const auto credential = CredentialOf({.flavor = kSys, .body = body}, Export{});
  ASSERT_TRUE(credential.has_value());
  EXPECT_EQ(*credential, (Credential{.uid = 1000, .gid = 100, .groups = {4, 24, 1000}}));
}

TEST(CredentialTest, RootIsSquashedUnlessTheExportSaysOtherwise) {
  const std::vector<uint8_t> body = Body(0, 0, {0, 4});
  EXPECT_EQ(CredentialOf({.flavor = kSys, .body = body}, Export{}), Credential{});
  EXPECT_EQ(CredentialOf({.flavor = kSys, .body = body}, Export{.root_squash = false}),
            (Credential{.uid = 0, .gid = 0, .groups = {0, 4}}));
  // Root's group does not come by the side door either.
  const std::vector<uint8_t> user = Body(7, 0, {0, 4});
  EXPECT_EQ(CredentialOf({.flavor = kSys, .body = user}, Export{}),
            (Credential{.uid = 7, .gid = kAnonymousId, .groups = {kAnonymousId, 4}}));
}

TEST(CredentialTest, NobodysIdIsAnonymous) {
  const std::vector<uint8_t> body = Body(UINT32_MAX, 4, {});
  EXPECT_EQ(CredentialOf({.flavor = kSys, .body = body}, Export{.root_squash = false}),
            Credential{});
}

TEST(CredentialTest, WithoutOneAnonymous) {
  EXPECT_EQ(CredentialOf({}, Export{.root_squash = false}), Credential{});
}

TEST(CredentialTest, WhatIsNoneIsRefused) {
  std::vector<uint8_t> body = Body(1, 2, {3});
  EXPECT_FALSE(CredentialOf({.flavor = rpcrdma::AuthFlavor::kGss, .body = body}, {}).has_value());
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_FALSE(CredentialOf({.flavor = kSys, .body = absl::MakeConstSpan(body).first(size)}, {})
                     .has_value());
  }
  body.push_back(0);
  EXPECT_FALSE(CredentialOf({.flavor = kSys, .body = body}, {}).has_value());
}

}  // namespace
}  // namespace pollux::nfs
