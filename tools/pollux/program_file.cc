#include "tools/pollux/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pollux::tools {
namespace {

// Of the dynamic section: real ones have some 50.
constexpr size_t kMaxEntries = 4096;

template <class Record>
bool ReadAt(int fd, uint64_t offset, Record* record, size_t count = 1) {
  const size_t bytes = count * sizeof(Record);
  return pread(fd, record, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool Has32Bits(int fd) {
  unsigned char ident[EI_NIDENT];
  return ReadAt(fd, 0, &ident) && std::memcmp(ident, ELFMAG, SELFMAG) == 0 &&
         ident[EI_CLASS] == ELFCLASS32;
}

std::optional<Elf64_Ehdr> ReadHeader(int fd) {
  Elf64_Ehdr header;
  if (!ReadAt(fd, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  return header;
}

// What the segments say of a program's libraries.
struct Linkage {
  bool names_loader = false;
  bool rpath = false;
  bool runpath = false;
  bool named = false;  // as libraries are, and the loader
};

bool ReadDynamicSection(int fd, const Elf64_Phdr& segment, Linkage* linkage) {
  const size_t count = segment.p_filesz / sizeof(Elf64_Dyn);
  if (count > kMaxEntries) return false;
  std::vector<Elf64_Dyn> entries(count);
  if (!ReadAt(fd, segment.p_offset, entries.data(), count)) return false;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    linkage->rpath = linkage->rpath || entry.d_tag == DT_RPATH;
    linkage->runpath = linkage->runpath || entry.d_tag == DT_RUNPATH;
    linkage->named = linkage->named || entry.d_tag == DT_SONAME;
  }
  return true;
}

// None where it is not as the header says.
std::optional<Linkage> ReadLinkage(int fd, const Elf64_Ehdr& header) {
  Linkage linkage;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(fd, header.e_phoff + i * sizeof segment, &segment)) return std::nullopt;
    linkage.names_loader = linkage.names_loader || segment.p_type == PT_INTERP;
    if (segment.p_type == PT_DYNAMIC && !ReadDynamicSection(fd, segment, &linkage)) {
      return std::nullopt;
    }
  }
  return linkage;
}

// As the kernel decides on AT_SECURE.
std::string Gains(const char* path) {
  struct stat status;
  struct statvfs file_system;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || statvfs(path, &file_system) != 0 ||
      (file_system.f_flag & ST_NOSUID) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
    return "";
  }
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return "setuid";
  constexpr mode_t kSetgid = S_ISGID | S_IXGRP;
  if ((status.st_mode & kSetgid) == kSetgid && status.st_gid != getgid()) return "setgid";
  // Root has what they could give.
  const bool capable = getuid() != 0 && getxattr(path, "security.capability", nullptr, 0) > 0;
  return capable ? "with file capabilities" : "";
}

}  // namespace

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::vector<std::string> directories =
      absl::StrSplit(path == nullptr ? "/bin:/usr/bin" : path, ':');
  for (const std::string& directory : directories) {
    std::string file = absl::StrCat(directory.empty() ? "." : directory, "/", name);
    struct stat status;
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

ProgramFile ReadProgramFile(const std::string& path) {
  ProgramFile program;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    // No script: that could not be started without being read.
    program.gains = Gains(path.c_str());
    return program;
  }
  // A script's own mode gives nothing.
  program.has_32_bits = Has32Bits(fd);
  if (const std::optional<Elf64_Ehdr> header = ReadHeader(fd)) {
    if (const std::optional<Linkage> linkage = ReadLinkage(fd, *header)) {
      program.has_rpath = linkage->rpath && !linkage->runpath;
      // The loader itself can be told a program to load.
      program.is_static = !linkage->names_loader && !linkage->named;
    }
    program.gains = Gains(path.c_str());
  }
  close(fd);
  return program;
}

}  // namespace pollux::tools
