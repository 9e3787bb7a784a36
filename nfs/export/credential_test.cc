#include "nfs/export/credential.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "oncrpc/codec.h"

namespace pollux::nfs {
namespace {

constexpr oncrpc::AuthFlavor kSys = oncrpc::AuthFlavor::kSys;

std::vector<uint8_t> Body(uint32_t uid, uint32_t gid, std::initializer_list<uint32_t> gids) {
  oncrpc::AuthSys sys{.machinename = {"client"}, .uid = uid, .gid = gid};
  for (const uint32_t id : gids) sys.gids.items.push_back(id);
  std::vector<uint8_t> space(oncrpc::kMaxAuthBytes);
  const oncrpc::Encoded encoded = oncrpc::Encode(sys, absl::MakeSpan(space));
  EXPECT_TRUE(encoded.ok);
  space.resize(encoded.stream.size());
  return space;
}

// Nothing when it is refused.
std::optional<Credential> Of(const oncrpc::OpaqueAuth& auth, const ClientRights& rights = {}) {
  Credential credential;
  if (CredentialOf(auth, rights, &credential) != oncrpc::AuthStatus::kOk) return std::nullopt;
  return credential;
}

TEST(CredentialTest, IdsAreTakenFromAuthSys) {
  const std::vector<uint8_t> body = Body(1000, 100, {4, 24, 1000});
  const auto credential = Of({.flavor = kSys, .body = body});
  ASSERT_TRUE(credential.has_value());
  EXPECT_EQ(*credential, (Credential{.uid = 1000, .gid = 100, .groups = {4, 24, 1000}}));
}

TEST(CredentialTest, RootIsSquashedWithoutNoRootSquash) {
  const std::vector<uint8_t> body = Body(0, 0, {0, 4});
  EXPECT_EQ(Of({.flavor = kSys, .body = body}), Credential{});
  EXPECT_EQ(Of({.flavor = kSys, .body = body}, ClientRights{.root_squash = false}),
            (Credential{.uid = 0, .gid = 0, .groups = {0, 4}}));
  // Root's group does not come by the side door either.
  const std::vector<uint8_t> user = Body(7, 0, {0, 4});
  EXPECT_EQ(Of({.flavor = kSys, .body = user}),
            (Credential{.uid = 7, .gid = kAnonymousId, .groups = {kAnonymousId, 4}}));
}

TEST(CredentialTest, UidMinusOneIsAnonymous) {
  const std::vector<uint8_t> body = Body(UINT32_MAX, 4, {});
  EXPECT_EQ(Of({.flavor = kSys, .body = body}, ClientRights{.root_squash = false}), Credential{});
}

TEST(CredentialTest, NoCredentialIsAnonymous) {
  EXPECT_EQ(Of({}, ClientRights{.root_squash = false}), Credential{});
}

TEST(CredentialTest, AllSquashMakesEveryUserAnonymous) {
  const std::vector<uint8_t> body = Body(1000, 100, {4, 24});
  const ClientRights rights{.all_squash = true, .anonymous_uid = 7, .anonymous_gid = 8};
  EXPECT_EQ(Of({.flavor = kSys, .body = body}, rights),
            (Credential{.uid = 7, .gid = 8, .groups = {}}));
}

TEST(CredentialTest, SquashedUsersGetTheAnonymousIdsOfTheClient) {
  const ClientRights rights{.anonymous_uid = 7, .anonymous_gid = 8};
  const Credential anonymous{.uid = 7, .gid = 8, .groups = {}};
  const std::vector<uint8_t> root = Body(0, 0, {4}), user = Body(5, 0, {0});
  EXPECT_EQ(Of({.flavor = kSys, .body = root}, rights), anonymous);
  EXPECT_EQ(Of({}, rights), anonymous);
  EXPECT_EQ(Of({.flavor = kSys, .body = user}, rights),
            (Credential{.uid = 5, .gid = 8, .groups = {8}}));
}

TEST(CredentialTest, InvalidCredentialsAreRefused) {
  std::vector<uint8_t> body = Body(1, 2, {3});
  Credential credential{.uid = 9, .gid = 9, .groups = {}};
  EXPECT_EQ(
      CredentialOf({.flavor = oncrpc::AuthFlavor::kGss, .body = body}, ClientRights{}, &credential),
      oncrpc::AuthStatus::kRejectedCred);
  for (size_t size = 0; size < body.size(); ++size) {
    EXPECT_EQ(CredentialOf({.flavor = kSys, .body = absl::MakeConstSpan(body).first(size)},
                           ClientRights{}, &credential),
              oncrpc::AuthStatus::kBadCred);
  }
  body.push_back(0);
  EXPECT_EQ(CredentialOf({.flavor = kSys, .body = body}, ClientRights{}, &credential),
            oncrpc::AuthStatus::kBadCred);
  EXPECT_EQ(credential.uid, 9u);
}

}  // namespace
}  // namespace pollux::nfs
