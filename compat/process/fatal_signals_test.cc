#include "compat/process/fatal_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace pollux::compat {
namespace {

constexpr size_t kBytes = 1 << 16;

class FatalSignalsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    struct sigaction action {};
    action.sa_handler = [](int) { siglongjmp(before_the_fault_, 1); };
    ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    ASSERT_EQ(sigaction(SIGBUS, &action, nullptr), 0);
    ASSERT_TRUE(InstallFatalSignalHandlers(
        [](const void* address) {
          errno = ENOTSUP;
          return registered_ != nullptr && address >= registered_ && address < registered_ + kBytes;
        },
        [] {}));
  }
  static volatile char* Unmapped() {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    EXPECT_EQ(munmap(memory, kBytes), 0);
    return static_cast<char*>(memory);
  }
  // Of a file that has been made shorter by half.
  static volatile char* Truncated() {
    const int file = memfd_create("truncated", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, kBytes), 0);
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    std::memset(memory, 'f', kBytes);
    EXPECT_EQ(ftruncate(file, kBytes / 2), 0);
    close(file);
    return static_cast<char*>(memory);
  }
  // Makes accesses to the memory's missing pages end in SIGBUS, as errors of a disk do. Returns a
  // descriptor to close, or -1 if that is not allowed.
  static int LoseContents(volatile char* memory) {
    const auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
    if (fd < 0) return -1;
    uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS, .ioctls = 0};
    uffdio_register range = {.range = {.start = reinterpret_cast<uintptr_t>(memory), .len = kBytes},
                             .mode = UFFDIO_REGISTER_MODE_MISSING,
                             .ioctls = 0};
    if (ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0) return fd;
    close(fd);
    return -1;
  }
  // Whether the fault of `touch` came to who took the signal before.
  template <class Touch>
  static bool Faults(Touch touch) {
    if (sigsetjmp(before_the_fault_, 1) != 0) return true;
    touch();
    return false;
  }

  static inline sigjmp_buf before_the_fault_;
  static inline const volatile char* volatile registered_ = nullptr;
};

TEST_F(FatalSignalsTest, UnmappedRegisteredMemoryIsMappedAgain) {
  volatile char* memory = Unmapped();
  registered_ = memory;
  errno = 0;
  memory[5] = 'a';
  memory[kBytes - 1] = 'z';
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(memory[5], 'a');
  EXPECT_EQ(memory[6], 0);
  EXPECT_EQ(memory[kBytes - 1], 'z');
  EXPECT_EQ(memory[kBytes / 2], 0) << "by reading";
  registered_ = nullptr;
  EXPECT_EQ(munmap(const_cast<char*>(memory), kBytes), 0);
}

TEST_F(FatalSignalsTest, RegisteredMemorySurvivesTruncationOfItsFile) {
  volatile char* memory = Truncated();
  registered_ = memory;
  memory[kBytes - 1] = 'z';
  EXPECT_EQ(memory[kBytes - 1], 'z');
  EXPECT_EQ(memory[kBytes / 2], 0) << "by reading";
  EXPECT_EQ(memory[kBytes / 2 - 1], 'f') << "what is left of the file";
  registered_ = nullptr;
  EXPECT_EQ(munmap(const_cast<char*>(memory), kBytes), 0);
}

TEST_F(FatalSignalsTest, RegisteredHugePagesSurviveTruncationOfTheirFile) {
  constexpr size_t kHugePage = 2 << 20;
  const int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
  if (file < 0) GTEST_SKIP() << "needs huge pages of 2 MiB";
  // Without a reservation, and never touched before it is truncated: no huge page has to be free.
  void* memory =
      mmap(nullptr, 2 * kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(ftruncate(file, 0), 0);  // mmap() has extended it
  registered_ = static_cast<char*>(memory) + kHugePage;
  auto* const last = static_cast<volatile char*>(memory) + kHugePage + kBytes - 1;
  ASSERT_FALSE(Faults([&] { *last = 'z'; }));
  EXPECT_EQ(*last, 'z');
  registered_ = nullptr;
  EXPECT_TRUE(Faults([&] { *static_cast<volatile char*>(memory) = 'a'; })) << "the other page";
  close(file);
  EXPECT_EQ(munmap(memory, 2 * kHugePage), 0);
}

TEST_F(FatalSignalsTest, AnonymousMemoryThatCannotBeReadIsNotReplaced) {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  registered_ = static_cast<char*>(memory);
  const int lost = LoseContents(static_cast<char*>(memory));
  if (lost < 0) GTEST_SKIP() << "needs userfaultfd";
  EXPECT_TRUE(Faults([&] { (void)registered_[0]; }));
  EXPECT_TRUE(Faults([&] { *static_cast<volatile char*>(memory) = 'a'; }));
  registered_ = nullptr;
  close(lost);
  EXPECT_EQ(munmap(memory, kBytes), 0);
}

// The same page is replaced when it is beyond the end of the file.
TEST_F(FatalSignalsTest, AFileThatCannotBeReadIsNotReplaced) {
  const std::string name = "/pollux-fatal-signals-" + std::to_string(getpid());
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) GTEST_SKIP() << "needs /dev/shm";
  ASSERT_EQ(ftruncate(file, 2 * kBytes), 0);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, kBytes);
  ASSERT_NE(memory, MAP_FAILED);
  registered_ = static_cast<char*>(memory);
  const int lost = LoseContents(static_cast<char*>(memory));
  if (lost >= 0) {
    EXPECT_TRUE(Faults([&] { (void)registered_[kBytes / 2]; }));
    close(lost);
  }
  EXPECT_EQ(ftruncate(file, kBytes + kBytes / 2), 0);
  EXPECT_EQ(registered_[kBytes / 2], 0);
  registered_ = nullptr;
  shm_unlink(name.c_str());
  close(file);
  EXPECT_EQ(munmap(memory, kBytes), 0);
  if (lost < 0) GTEST_SKIP() << "needs userfaultfd";
}

TEST_F(FatalSignalsTest, OtherFaultsReachTheProgram) {
  volatile char* memory = Unmapped();
  EXPECT_TRUE(Faults([&] { memory[0] = 'a'; }));
  EXPECT_TRUE(Faults([&] { (void)memory[0]; })) << "a second one too";
  volatile char* file = Truncated();
  EXPECT_TRUE(Faults([&] { file[kBytes / 2] = 'a'; }));
  EXPECT_EQ(munmap(const_cast<char*>(file), kBytes), 0);
}

TEST_F(FatalSignalsTest, ProtectedMemoryStaysProtected) {
  void* memory = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  registered_ = static_cast<char*>(memory);
  EXPECT_TRUE(Faults([&] { *static_cast<volatile char*>(memory) = 'a'; }));
  registered_ = nullptr;
  EXPECT_EQ(munmap(memory, kBytes), 0);
}

// In processes of their own: programs that have taken the signal in other ways.

TEST_F(FatalSignalsTest, AResethandHandlerIsCalledOnce) {
  const auto fault = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {
      static int calls = 0;
      if (++calls == 2) _exit(2);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGSEGV, &action, nullptr);
    InstallFatalSignalHandlers([](const void*) { return false; }, [] {});
    Unmapped()[0] = 'a';
    _exit(3);
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(FatalSignalsTest, ANodeferHandlerMayLeaveBySiglongjmp) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "TSan blocks every signal in handlers, whatever their flags say: a jump that keeps "
         "the mask leaves SIGSEGV blocked, and the next fault ends the process";
#endif
  const auto fault = [] {
    struct sigaction action {};
    action.sa_handler = [](int) { siglongjmp(before_the_fault_, 1); };
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    InstallFatalSignalHandlers([](const void*) { return false; }, [] {});
    static volatile int faults = 0;
    constexpr int kMaskNotKept = 0;
    if (sigsetjmp(before_the_fault_, kMaskNotKept) != 0) faults = faults + 1;
    if (faults < 2) Unmapped()[0] = 'a';
    _exit(0);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "");
}

TEST_F(FatalSignalsTest, TheExitCallbackRunsBeforeAFatalFault) {
  const auto fault = [] {
    signal(SIGSEGV, SIG_DFL);
    InstallFatalSignalHandlers([](const void*) { return false; }, [] { _exit(4); });
    Unmapped()[0] = 'a';
    _exit(3);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(4), "");
}

TEST_F(FatalSignalsTest, TheExitCallbackRunsBeforeAbort) {
  const auto end = [](int number, void (*before_end)()) {
    signal(number, SIG_DFL);
    InstallFatalSignalHandlers([](const void*) { return false; }, before_end);
    raise(number);
    _exit(3);
  };
  for (const int number : {SIGABRT, SIGFPE, SIGILL}) {
    EXPECT_EXIT(end(number, [] { _exit(4); }), testing::ExitedWithCode(4), "") << number;
    EXPECT_EXIT(end(number, [] {}), testing::KilledBySignal(number), "") << number;
  }
}

TEST_F(FatalSignalsTest, AHandlerOfAbortIsLeftAlone) {
  const auto end = [] {
    signal(SIGABRT, [](int) { _exit(5); });
    InstallFatalSignalHandlers([](const void*) { return false; }, [] { _exit(4); });
    std::abort();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(5), "");
}

TEST_F(FatalSignalsTest, SignalsSentByRaiseArePassedOn) {
  EXPECT_TRUE(Faults([] { raise(SIGSEGV); }));
  EXPECT_TRUE(Faults([] { raise(SIGBUS); }));
}

}  // namespace
}  // namespace pollux::compat
