#include "nfs/v3/status.h"

#include <cstdint>
#include <utility>

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

// RFC 1813 section 2.5
TEST(StatusTest, StatusesHaveTheNumbersOfTheSpecification) {
  const std::pair<uint32_t, const char*> kNumbers[] = {{0, "NFS3_OK"},
                                                       {1, "NFS3ERR_PERM"},
                                                       {2, "NFS3ERR_NOENT"},
                                                       {5, "NFS3ERR_IO"},
                                                       {6, "NFS3ERR_NXIO"},
                                                       {13, "NFS3ERR_ACCES"},
                                                       {17, "NFS3ERR_EXIST"},
                                                       {18, "NFS3ERR_XDEV"},
                                                       {19, "NFS3ERR_NODEV"},
                                                       {20, "NFS3ERR_NOTDIR"},
                                                       {21, "NFS3ERR_ISDIR"},
                                                       {22, "NFS3ERR_INVAL"},
                                                       {27, "NFS3ERR_FBIG"},
                                                       {28, "NFS3ERR_NOSPC"},
                                                       {30, "NFS3ERR_ROFS"},
                                                       {31, "NFS3ERR_MLINK"},
                                                       {63, "NFS3ERR_NAMETOOLONG"},
                                                       {66, "NFS3ERR_NOTEMPTY"},
                                                       {69, "NFS3ERR_DQUOT"},
                                                       {70, "NFS3ERR_STALE"},
                                                       {71, "NFS3ERR_REMOTE"},
                                                       {10001, "NFS3ERR_BADHANDLE"},
                                                       {10002, "NFS3ERR_NOT_SYNC"},
                                                       {10003, "NFS3ERR_BAD_COOKIE"},
                                                       {10004, "NFS3ERR_NOTSUPP"},
                                                       {10005, "NFS3ERR_TOOSMALL"},
                                                       {10006, "NFS3ERR_SERVERFAULT"},
                                                       {10007, "NFS3ERR_BADTYPE"},
                                                       {10008, "NFS3ERR_JUKEBOX"}};
  for (const auto& [number, name] : kNumbers) EXPECT_EQ(Name(static_cast<Nfsstat3>(number)), name);
}

TEST(StatusTest, UnknownStatusesAreNamedByNumber) {
  EXPECT_EQ(Name(Nfsstat3::kToosmall), "NFS3ERR_TOOSMALL");
  EXPECT_EQ(Name(static_cast<Nfsstat3>(12345)), "status 12345");
  EXPECT_THAT(std::string(ToStatus(static_cast<Nfsstat3>(12345), "f").message()),
              testing::HasSubstr("status 12345"));
}

}  // namespace
}  // namespace pollux::nfs
