#include "nfs/procedures/name_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "nfs/v3/errno_status.h"

namespace pollux::nfs {
namespace {

// Of two directories: the kernel's EXDEV is true of them.
Nfsstat3 StatusOfTwo(int error) { return error == EXDEV ? Nfsstat3::kXdev : StatusOfErrno(error); }

Nfsstat3 CheckChange(const CallContext& context, const Filename3& name) {
  if (context.rights->read_only) return Nfsstat3::kRofs;
  return CheckNewName(name.text);
}

// The directory that something of this export is to be linked or moved into.
Nfsstat3 FindTarget(const CallContext& context, const Diropargs3& target, Fd* directory) {
  if (context.tree->IsOfAnother(target.dir.span())) return Nfsstat3::kXdev;
  return context.tree->FindDirectory(target.dir.span(), directory);
}

RemoveRes Unlink(const CallContext& context, const RemoveArgs& args, int flags) {
  Fd directory;
  Nfsstat3 status = context.tree->FindDirectory(args.dir.span(), &directory);
  if (status != Nfsstat3::kOk) return {.status = status};
  WeakCache wcc;
  wcc.Begin(context, directory);
  StableChange change;
  status = CheckChange(context, args.name);
  if (status == Nfsstat3::kOk) status = change.Begin(directory);
  if (status == Nfsstat3::kOk) {
    const AsCaller as_caller(context);
    const std::string name(args.name.text);
    if (!as_caller.ok()) {
      status = Nfsstat3::kServerfault;
    } else if (unlinkat(directory.get(), name.c_str(), flags) != 0) {
      status = StatusOfErrno(errno);
    }
  }
  const WccData dir_wcc = wcc.End(context, directory);
  if (status == Nfsstat3::kOk) status = change.Settle(context);
  RemoveRes result{.status = status};
  (status == Nfsstat3::kOk ? result.resok : result.resfail) = dir_wcc;
  return result;
}

Nfsstat3 RenameBetween(const CallContext& context, const RenameArgs& args, const Fd& from,
                       const Fd& to) {
  Nfsstat3 status = CheckChange(context, args.from.name);
  if (status == Nfsstat3::kOk) status = CheckNewName(args.to.name.text);
  if (status != Nfsstat3::kOk) return status;
  const std::string old_name(args.from.name.text), new_name(args.to.name.text);
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return Nfsstat3::kServerfault;
  const int done = renameat(from.get(), old_name.c_str(), to.get(), new_name.c_str());
  return done == 0 ? Nfsstat3::kOk : StatusOfTwo(errno);
}

Nfsstat3 LinkInto(const CallContext& context, const LinkArgs& args, const Fd& file,
                  const Fd& directory) {
  const Nfsstat3 status = CheckChange(context, args.link.name);
  if (status != Nfsstat3::kOk) return status;
  const std::string name(args.link.name.text);
  const AsCaller as_caller(context);
  if (!as_caller.ok()) return Nfsstat3::kServerfault;
  const int done =
      linkat(AT_FDCWD, PathTo(file).c_str(), directory.get(), name.c_str(), AT_SYMLINK_FOLLOW);
  return done == 0 ? Nfsstat3::kOk : StatusOfTwo(errno);
}

}  // namespace

LookupRes Lookup(const CallContext& context, const LookupArgs& args) {
  Fd directory, object;
  Nfsstat3 status = context.tree->FindDirectory(args.dir.span(), &directory);
  if (status != Nfsstat3::kOk) return {.status = status};
  {
    const AsCaller as_caller(context);
    status = as_caller.ok() ? context.tree->Lookup(directory, args.name.text, &object)
                            : Nfsstat3::kServerfault;
  }
  const PostOpAttr of_directory = AttributesOf(context, directory);
  if (status != Nfsstat3::kOk) return {.status = status, .resfail = of_directory};
  const std::optional<NfsFh3> handle = context.tree->HandleOf(object);
  if (!handle.has_value()) return {.status = Nfsstat3::kServerfault, .resfail = of_directory};
  return {.resok = {.object = *handle,
                    .obj_attributes = AttributesOf(context, object),
                    .dir_attributes = of_directory}};
}

ReadlinkRes Readlink(const CallContext& context, const ReadlinkArgs& args) {
  Fd link;
  const Nfsstat3 status = context.tree->Find(args.symlink.span(), &link);
  if (status != Nfsstat3::kOk) return {.status = status};
  const PostOpAttr attributes = AttributesOf(context, link);
  if (attributes.has_value() && attributes->type != Ftype3::kLnk) {
    return {.status = Nfsstat3::kInval, .resfail = attributes};
  }
  const size_t room = std::min<size_t>(context.block.size(), kMaxNfspath3);
  const ssize_t size =
      readlinkat(link.get(), "", reinterpret_cast<char*>(context.block.data()), room);
  if (size < 0) return {.status = StatusOfErrno(errno), .resfail = attributes};
  return {.resok = {.symlink_attributes = attributes,
                    .data = {context.block.first(static_cast<size_t>(size))}}};
}

RemoveRes Remove(const CallContext& context, const RemoveArgs& args) {
  return Unlink(context, args, 0);
}

RemoveRes Rmdir(const CallContext& context, const RemoveArgs& args) {
  return Unlink(context, args, AT_REMOVEDIR);
}

RenameRes Rename(const CallContext& context, const RenameArgs& args) {
  Fd from, to;
  Nfsstat3 status = context.tree->FindDirectory(args.from.dir.span(), &from);
  if (status == Nfsstat3::kOk) status = FindTarget(context, args.to, &to);
  if (status != Nfsstat3::kOk) return {.status = status};
  // One directory changes once.
  WeakCache from_wcc, to_wcc;
  from_wcc.Begin(context, from);
  const bool same = args.from.dir == args.to.dir;
  if (!same) to_wcc.Begin(context, to);
  StableChange from_change, to_change;
  status = to_change.Begin(to);
  if (status == Nfsstat3::kOk && !same) status = from_change.Begin(from);
  if (status == Nfsstat3::kOk) status = RenameBetween(context, args, from, to);
  const WccData fromdir_wcc = from_wcc.End(context, from);
  const WccData todir_wcc = same ? fromdir_wcc : to_wcc.End(context, to);
  // Stored with two names it can be, with none not.
  if (status == Nfsstat3::kOk) status = to_change.Settle(context);
  if (status == Nfsstat3::kOk) status = from_change.Settle(context);
  RenameRes result{.status = status};
  RenameWcc& wcc = status == Nfsstat3::kOk ? result.resok : result.resfail;
  wcc.fromdir_wcc = fromdir_wcc;
  wcc.todir_wcc = todir_wcc;
  return result;
}

LinkRes Link(const CallContext& context, const LinkArgs& args) {
  Fd file, directory;
  Nfsstat3 status = context.tree->Find(args.file.span(), &file);
  if (status == Nfsstat3::kOk) status = FindTarget(context, args.link, &directory);
  if (status != Nfsstat3::kOk) return {.status = status};
  WeakCache wcc;
  wcc.Begin(context, directory);
  StableChange change;
  status = change.Begin(directory);
  if (status == Nfsstat3::kOk) status = LinkInto(context, args, file, directory);
  const WccData linkdir_wcc = wcc.End(context, directory);
  if (status == Nfsstat3::kOk) status = change.Settle(context);
  LinkRes result{.status = status};
  LinkWcc& told = status == Nfsstat3::kOk ? result.resok : result.resfail;
  told.file_attributes = AttributesOf(context, file);
  told.linkdir_wcc = linkdir_wcc;
  return result;
}

}  // namespace pollux::nfs
