#include "tools/pollux/program_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pollux::tools {
namespace {

class ProgramFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/program_file_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Write(const std::string& bytes) const {
    std::ofstream(Path()) << bytes;
    chmod(Path().c_str(), 0755);
    return Path();
  }
  std::string Path() const { return directory_ + "/program"; }

  std::string directory_;
};

template <class Record>
std::string Bytes(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

// Nothing but a header, a segment and these entries of the dynamic section.
std::string Elf(const std::vector<int64_t>& tags) {
  Elf64_Ehdr header{};
  std::copy_n(ELFMAG, SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_DYNAMIC;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = tags.size() * sizeof(Elf64_Dyn);
  std::string file = Bytes(header) + Bytes(segment);
  for (const int64_t tag : tags) file += Bytes(Elf64_Dyn{.d_tag = tag, .d_un = {}});
  return file;
}

TEST_F(ProgramFileTest, OnlyADtRpathInUseIsReported) {
  EXPECT_TRUE(ReadProgramFile(Write(Elf({DT_NEEDED, DT_RPATH, DT_NULL}))).has_rpath);
  EXPECT_FALSE(ReadProgramFile(Write(Elf({DT_NEEDED, DT_NULL, DT_RPATH}))).has_rpath);
  EXPECT_FALSE(ReadProgramFile(Write(Elf({DT_RUNPATH, DT_NULL}))).has_rpath);
  EXPECT_FALSE(ReadProgramFile(Write(Elf({DT_RPATH, DT_RUNPATH, DT_NULL}))).has_rpath)
      << "the loader does not look at it";
}

TEST_F(ProgramFileTest, TruncatedAndOversizedFilesAreNoProgram) {
  const std::string whole = Elf({DT_RPATH, DT_NULL});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(ReadProgramFile(Write(whole.substr(0, bytes))).has_rpath) << bytes;
  }
  const std::string longest = Elf(std::vector<int64_t>(4096, DT_RPATH));
  EXPECT_TRUE(ReadProgramFile(Write(longest)).has_rpath);
  EXPECT_FALSE(ReadProgramFile(Write(Elf(std::vector<int64_t>(4097, DT_RPATH)))).has_rpath);
  EXPECT_FALSE(ReadProgramFile(Write("#!/bin/sh\n")).has_rpath);
  EXPECT_FALSE(ReadProgramFile(directory_).has_rpath);
  EXPECT_FALSE(ReadProgramFile(directory_ + "/none").has_rpath);
}

TEST_F(ProgramFileTest, StaticallyLinkedProgramsAreDetected) {
  EXPECT_TRUE(ReadProgramFile(Write(Elf({DT_NULL}))).is_static) << "and placed anywhere";
  EXPECT_FALSE(ReadProgramFile(Write(Elf({DT_SONAME, DT_NULL}))).is_static) << "the loader";
  std::string file = Elf({DT_NULL});
  const uint32_t kind = PT_INTERP;
  file.replace(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_type), sizeof kind, Bytes(kind));
  EXPECT_FALSE(ReadProgramFile(Write(file)).is_static);
  EXPECT_FALSE(ReadProgramFile(Write(file.substr(0, sizeof(Elf64_Ehdr)))).is_static);
  EXPECT_FALSE(ReadProgramFile(Write("#!/bin/sh\n")).is_static);
  EXPECT_FALSE(ReadProgramFile("/proc/self/exe").is_static);
}

TEST_F(ProgramFileTest, ThirtyTwoBitProgramsAreDetected) {
  std::string file = Elf({DT_NULL});
  EXPECT_FALSE(ReadProgramFile(Write(file)).has_32_bits);
  file[EI_CLASS] = ELFCLASS32;
  EXPECT_TRUE(ReadProgramFile(Write(file)).has_32_bits);
  EXPECT_FALSE(ReadProgramFile(Path()).is_static);
  file[0] = '#';
  EXPECT_FALSE(ReadProgramFile(Write(file)).has_32_bits);
}

TEST_F(ProgramFileTest, AnOversizedDynamicSectionIsIgnored) {
  const std::string whole = Elf({DT_RPATH, DT_NULL});
  for (const uint64_t bytes : {uint64_t{1} << 63, UINT64_MAX}) {
    std::string file = whole;
    file.replace(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), sizeof bytes, Bytes(bytes));
    EXPECT_FALSE(ReadProgramFile(Write(file)).has_rpath) << bytes;
  }
}

TEST_F(ProgramFileTest, SetIdBitsOfTheCallersOwnFileGainNothing) {
  Write(Elf({DT_NULL}));
  chmod(Path().c_str(), 06755);
  EXPECT_EQ(ReadProgramFile(Path()).gains, "");
}

TEST_F(ProgramFileTest, SetIdBitsOfAnotherUserAreReported) {
  Write(Elf({DT_NULL}));
  if (chown(Path().c_str(), getuid() + 1, getgid() + 1) != 0) {
    GTEST_SKIP() << "needs the right to give a file away";
  }
  EXPECT_EQ(ReadProgramFile(Path()).gains, "");
  chmod(Path().c_str(), 04755);
  EXPECT_EQ(ReadProgramFile(Path()).gains, "setuid");
  chmod(Path().c_str(), 02755);
  EXPECT_EQ(ReadProgramFile(Path()).gains, "setgid");
  chmod(Path().c_str(), 02745);
  EXPECT_EQ(ReadProgramFile(Path()).gains, "") << "means locking";
  Write("#!/bin/sh\n");
  chmod(Path().c_str(), 04755);
  EXPECT_EQ(ReadProgramFile(Path()).gains, "") << "a script";
}

TEST_F(ProgramFileTest, IsFoundInPathAsByAShell) {
  Write("");
  const std::string before = getenv("PATH");
  setenv("PATH", ("/nowhere:" + directory_).c_str(), 1);
  EXPECT_EQ(FindProgram("program"), Path());
  EXPECT_EQ(FindProgram("./program"), "./program");
  chmod(Path().c_str(), 0644);
  EXPECT_EQ(FindProgram("program"), "") << "not to be executed";
  setenv("PATH", before.c_str(), 1);
  EXPECT_NE(FindProgram("sh"), "");
}

}  // namespace
}  // namespace pollux::tools
