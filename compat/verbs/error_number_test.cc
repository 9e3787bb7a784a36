#include "compat/verbs/error_number.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pollux::compat {
namespace {

TEST(ErrorNumber, MapsStatusCodesToErrnos) {
  EXPECT_EQ(ErrorNumber(absl::OkStatus()), 0);
  EXPECT_EQ(ErrorNumber(absl::InvalidArgumentError("")), EINVAL);
  EXPECT_EQ(ErrorNumber(absl::FailedPreconditionError("")), EBUSY);
  EXPECT_EQ(ErrorNumber(absl::ResourceExhaustedError("")), ENOMEM);
  EXPECT_EQ(ErrorNumber(absl::NotFoundError("")), EADDRNOTAVAIL);
  EXPECT_EQ(ErrorNumber(absl::AlreadyExistsError("")), EADDRINUSE);
  EXPECT_EQ(ErrorNumber(absl::UnimplementedError("")), EOPNOTSUPP);
}

TEST(ErrorNumber, NoErrorMapsToZero) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_NE(ErrorNumber(absl::Status(static_cast<absl::StatusCode>(code), "")), 0) << code;
  }
}

TEST(ErrorNumber, ErrnoIsSet) {
  errno = 0;
  EXPECT_EQ(ZeroOrErrno(absl::OkStatus()), 0);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(ZeroOrErrno(absl::InvalidArgumentError("")), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Failed(ENODEV), -1);
  EXPECT_EQ(errno, ENODEV);
}

}  // namespace
}  // namespace pollux::compat
