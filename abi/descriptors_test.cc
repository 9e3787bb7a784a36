#include "abi/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pollux::abi {
namespace {

bool ClosesOnExec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(NewDescriptors, OnlyTheNewOnes) {
  const int old = open("/dev/null", O_RDONLY);
  const NewDescriptors descriptors;
  const int added = open("/dev/null", O_RDONLY);
  ASSERT_TRUE(old >= 0 && added >= 0);
  descriptors.CloseOnExec();
  EXPECT_FALSE(ClosesOnExec(old));
  EXPECT_TRUE(ClosesOnExec(added));
  close(old);
  close(added);
}

}  // namespace
}  // namespace pollux::abi
