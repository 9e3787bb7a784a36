#include "nfs/v3/errno_status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace pollux::nfs {
namespace {

TEST(ErrnoStatusTest, KnownErrnosMapToTheirStatusAndOthersToADefault) {
  EXPECT_EQ(StatusOfErrno(0), Nfsstat3::kOk);
  EXPECT_EQ(StatusOfErrno(ENOENT), Nfsstat3::kNoent);
  EXPECT_EQ(StatusOfErrno(ENOTEMPTY), Nfsstat3::kNotempty);
  EXPECT_EQ(StatusOfErrno(EDQUOT), Nfsstat3::kDquot);
  EXPECT_EQ(StatusOfErrno(EMFILE), Nfsstat3::kJukebox);
  for (const int error : {ELOOP, EBUSY, ETXTBSY, EXDEV}) {
    EXPECT_EQ(StatusOfErrno(error), Nfsstat3::kAcces);
  }
  EXPECT_EQ(StatusOfErrno(EBADMSG), Nfsstat3::kIo);
}

TEST(ErrnoStatusTest, ANameIsASinglePathComponent) {
  for (const char* name : {"a", ".", "..", "...", " ", "\xff"}) {
    EXPECT_EQ(CheckName(name), Nfsstat3::kOk) << name;
  }
  for (const std::string_view name : {std::string_view(), std::string_view("a/b"),
                                      std::string_view("/"), std::string_view("a\0b", 3)}) {
    EXPECT_EQ(CheckName(name), Nfsstat3::kInval) << name;
  }
  EXPECT_EQ(CheckName(std::string(255, 'n')), Nfsstat3::kOk);
  EXPECT_EQ(CheckName(std::string(256, 'n')), Nfsstat3::kNametoolong);
}

TEST(ErrnoStatusTest, DotNamesCannotBeCreatedOrRemoved) {
  EXPECT_EQ(CheckNewName("."), Nfsstat3::kInval);
  EXPECT_EQ(CheckNewName(".."), Nfsstat3::kInval);
  EXPECT_EQ(CheckNewName("..."), Nfsstat3::kOk);
  EXPECT_EQ(CheckNewName("a/.."), Nfsstat3::kInval);
}

}  // namespace
}  // namespace pollux::nfs
