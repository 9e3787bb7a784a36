#include "nfs/v3/status.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pollux::nfs {
namespace {

TEST(StatusTest, StatusesBecomeOneLineMessages) {
  EXPECT_TRUE(ToStatus(Nfsstat3::kOk, "f").ok());
  const absl::Status full = ToStatus(Nfsstat3::kNospc, "/export/f");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "/export/f: the server has no space left (NFS3ERR_NOSPC)");
  EXPECT_EQ(ToStatus(Nfsstat3::kAcces, "f").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ToStatus(Nfsstat3::kJukebox, "f").code(), absl::StatusCode::kUnavailable);
}

TEST(StatusTest, UnknownStatusesAreNamedByNumber) {
  EXPECT_EQ(Name(Nfsstat3::kToosmall), "NFS3ERR_TOOSMALL");
  EXPECT_EQ(Name(static_cast<Nfsstat3>(12345)), "status 12345");
  EXPECT_THAT(std::string(ToStatus(static_cast<Nfsstat3>(12345), "f").message()),
              testing::HasSubstr("status 12345"));
}

}  // namespace
}  // namespace pollux::nfs
