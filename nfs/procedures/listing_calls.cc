#include "nfs/procedures/listing_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

constexpr size_t kReadBytes = 32 * 1024;  // of one getdents64()

// False: no more, this one was not taken.
using TakeEntry = absl::FunctionRef<bool(const dirent64& entry)>;

// Another one for each directory that there ever was under one inode number.
Cookieverf3 VerifierOf(const Fd& directory) {
  struct statx times;
  if (statx(directory.get(), "", AT_EMPTY_PATH, STATX_BTIME | STATX_INO, &times) != 0) return 0;
  const uint64_t born =
      (times.stx_mask & STATX_BTIME) == 0
          ? 0
          : static_cast<uint64_t>(times.stx_btime.tv_sec) << 32 ^ times.stx_btime.tv_nsec;
  return times.stx_ino ^ born;
}

// The directory of a handle, open for reading by the caller, at `cookie`.
Nfsstat3 OpenAt(const CallContext& context, const Fd& object, uint64_t cookie, Fd* directory) {
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return Nfsstat3::kServerfault;
  *directory = Fd(open(PathTo(object).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory->ok()) return StatusOfErrno(errno);
  if (cookie != 0 && lseek(directory->get(), static_cast<off_t>(cookie), SEEK_SET) < 0) {
    return Nfsstat3::kBadCookie;
  }
  return Nfsstat3::kOk;
}

// The names that are given out stay where they are: each part is read behind the one before. The
// kernel's entries are never larger than the XDR that they become, so that what `take` refuses ends
// it long before the block does.
Nfsstat3 ForEach(const Fd& directory, absl::Span<uint8_t> block, TakeEntry take, bool* eof) {
  for (size_t used = 0; block.size() - used >= kReadBytes;) {
    const long size = syscall(SYS_getdents64, directory.get(), block.data() + used, kReadBytes);
    if (size < 0) return errno == EINVAL ? Nfsstat3::kBadCookie : StatusOfErrno(errno);
    if (size == 0) {
      *eof = true;
      return Nfsstat3::kOk;
    }
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(block.data() + used + at);
      if (!take(*entry)) return Nfsstat3::kOk;
      at += entry->d_reclen;
    }
    used += (static_cast<size_t>(size) + 7) & ~size_t{7};
  }
  return Nfsstat3::kOk;
}

// What READDIR and READDIRPLUS have in common: `Res` and its entries, `fill` completes one.
template <class Res, class Args, class Fill>
Res List(const CallContext& context, const Args& args, uint32_t max_bytes, uint32_t max_names,
         Fill fill) {
  Fd object, directory;
  Nfsstat3 status = context.tree->FindDirectory(args.dir.span(), &object);
  if (status != Nfsstat3::kOk) return {.status = status};
  Res result;
  const Cookieverf3 verifier = VerifierOf(object);
  status = args.cookie != 0 && args.cookieverf != verifier
               ? Nfsstat3::kBadCookie
               : OpenAt(context, object, args.cookie, &directory);
  if (status != Nfsstat3::kOk) {
    return {.status = status, .resfail = AttributesOf(context, object)};
  }
  struct stat own = {};
  fstat(object.get(), &own);
  size_t room = std::min(max_bytes, kMaxDirectoryBytes);
  const size_t empty = EmptyListBytes(true);
  room = room > empty ? room - empty : 0;
  size_t names_room = max_names;
  auto& entries = result.resok.entries.items;
  const auto take = [&](const dirent64& found) {
    typename std::remove_reference_t<decltype(entries)>::value_type entry;
    entry.fileid = found.d_ino;
    entry.name.text = found.d_name;
    entry.cookie = static_cast<uint64_t>(found.d_off);
    // What is above the export is nobody's business.
    if (entry.name.text == ".." && context.tree->IsRoot(own)) entry.fileid = own.st_ino;
    const size_t name_bytes = ListedBytes(Entry3{.name = entry.name});
    // `dircount` is a hint: one entry at least.
    if (name_bytes > names_room && !entries.empty()) return false;
    fill(directory, entry);
    const size_t bytes = ListedBytes(entry);
    if (bytes > room) return false;
    room -= bytes;
    names_room -= std::min(names_room, name_bytes);
    entries.push_back(entry);
    return true;
  };
  {
    const AsCaller as_caller(context);
    status = as_caller.ok() ? ForEach(directory, context.block, take, &result.resok.eof)
                            : Nfsstat3::kServerfault;
  }
  if (status == Nfsstat3::kOk && entries.empty() && !result.resok.eof) {
    status = Nfsstat3::kToosmall;
  }
  const PostOpAttr attributes = AttributesOf(context, object);
  if (status != Nfsstat3::kOk) return {.status = status, .resfail = attributes};
  result.resok.dir_attributes = attributes;
  result.resok.cookieverf = verifier;
  return result;
}

}  // namespace

ReaddirRes Readdir(const CallContext& context, const ReaddirArgs& args) {
  return List<ReaddirRes>(context, args, args.count, args.count, [](const Fd&, Entry3&) {});
}

ReaddirplusRes Readdirplus(const CallContext& context, const ReaddirplusArgs& args) {
  return List<ReaddirplusRes>(
      context, args, args.maxcount, args.dircount,
      [&context](const Fd& directory, Entryplus3& entry) {
        Fd object;
        if (context.tree->Lookup(directory, entry.name.text, &object) != Nfsstat3::kOk) return;
        entry.name_attributes = AttributesOf(context, object);
        entry.name_handle = context.tree->HandleOf(object);
        // It may have been replaced since its name was read.
        if (entry.name_attributes.has_value()) entry.fileid = entry.name_attributes->fileid;
      });
}

}  // namespace pollux::nfs
