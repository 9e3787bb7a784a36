#include "nfs/mount/mount_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nfs/v3/errno_status.h"
#include "nfs/v3/status.h"
#include "oncrpc/codec.h"
#include "stack/base/address.h"

namespace pollux::nfs {
namespace {

using oncrpc::AcceptStatus;

// Whether `path` is the export's directory or below.
bool IsBelow(std::string_view path, std::string_view directory) {
  if (path.substr(0, directory.size()) != directory) return false;
  const std::string_view rest = path.substr(directory.size());
  return rest.empty() || rest.front() == '/' || directory == "/";
}

}  // namespace

void MountCalls::Remembered::Add(Mounted one) {
  const std::lock_guard lock(mutex);
  std::erase(mounted, one);
  mounted.push_back(std::move(one));
  if (mounted.size() > kMaxRemembered) mounted.pop_front();
}

MountCalls::MountCalls(const ServedExports* exports, MountRefusals::Log log)
    : exports_(exports),
      remembered_(std::make_shared<Remembered>()),
      refusals_(std::make_shared<MountRefusals>(std::move(log))) {}

void MountCalls::Serve(oncrpc::ServiceCall call) {
  Dirpath path;
  std::list<std::string> names;
  switch (static_cast<MountProcedure>(call.procedure())) {
    case MountProcedure::kNull:
      return call.Reply(oncrpc::Void());
    case MountProcedure::kMnt:
      return Mount(std::move(call));
    case MountProcedure::kDump:
      return Dump(std::move(call));
    case MountProcedure::kUmnt:
      if (!call.Read(&path)) return call.Fail(AcceptStatus::kGarbageArguments);
      if (!path.path.text.empty()) Unmount(call.client(), path.path.text);
      return call.Reply(oncrpc::Void());
    case MountProcedure::kUmntall:
      Unmount(call.client(), {});
      return call.Reply(oncrpc::Void());
    case MountProcedure::kExport:
      return call.Reply(List(&names), call.list_bytes());
  }
  call.Fail(AcceptStatus::kProcedureUnavailable);
}

void MountCalls::Mount(oncrpc::ServiceCall call) {
  Dirpath asked;
  if (!call.Read(&asked)) return call.Fail(AcceptStatus::kGarbageArguments);
  std::string path(asked.path.text);
  // System calls would ignore everything from a NUL on.
  const bool is_valid = NormalizeDirectory(&path) && path.find('\0') == std::string::npos;
  ExportEntry chosen;
  // Of nested exports, the innermost one that admits the client.
  std::pair<bool, size_t> rank;  // whether it admits the client, and the length of its path
  for (const ExportEntry& entry : *exports_->table()) {
    const Export& exported = entry.tree->exported();
    const std::pair its_rank(exported.RightsOf(call.client()) != nullptr,
                             exported.directory.size());
    if (!is_valid || !IsBelow(path, exported.directory) || its_rank < rank) continue;
    chosen = entry;
    rank = its_rank;
  }
  const auto [is_admitted, rest_at] = rank;
  if (!is_admitted) {
    refusals_->Write(call.client(), asked.path.text,
                     chosen.tree == nullptr
                         ? "nothing is exported there"
                         : absl::StrCat("the export ", chosen.tree->exported().directory,
                                        " is for other clients"));
    return call.Reply(MountRes{.status = Nfsstat3::kAcces});
  }
  auto find = [tree = std::move(chosen.tree), remembered = remembered_, refusals = refusals_,
               asked_path = std::string(asked.path.text), rest = path.substr(rest_at),
               call = std::move(call)](Identity&) mutable {
    const MountRes found = Find(*tree, rest);
    if (found.status == Nfsstat3::kOk) {
      remembered->Add({FormatAddress(call.client()), asked_path});
    } else {
      refusals->Write(call.client(), asked_path, Words(found.status));
    }
    call.Reply(found);
  };
  // What storage has no room for is not answered, and is asked again.
  chosen.served->storage->RunControlCall(std::move(find));
}

MountRes MountCalls::Find(const ExportTree& tree, std::string_view path) {
  Fd directory;
  // With "/.", the last component must be a directory or a symbolic link to one.
  const Nfsstat3 status = tree.Walk(absl::StrCat(std::string(path), "/."), &directory);
  if (status != Nfsstat3::kOk) return {.status = status};
  const std::optional<NfsFh3> handle = tree.HandleOf(directory);
  if (!handle.has_value()) return {.status = Nfsstat3::kServerfault};
  MountRes result;
  result.resok.fhandle = *handle;
  for (const auto flavor : {oncrpc::AuthFlavor::kSys, oncrpc::AuthFlavor::kNone}) {
    result.resok.auth_flavors.items.push_back(static_cast<uint32_t>(flavor));
  }
  return result;
}

void MountCalls::Unmount(const Gid& client, std::string_view path) {
  const std::string host = FormatAddress(client);
  const std::lock_guard lock(remembered_->mutex);
  std::erase_if(remembered_->mounted, [&](const Remembered::Mounted& mounted) {
    return mounted.host == host && (path.empty() || mounted.directory == path);
  });
}

void MountCalls::Dump(oncrpc::ServiceCall call) {
  const std::lock_guard lock(remembered_->mutex);
  Mountlist list;
  for (const Remembered::Mounted& mounted : remembered_->mounted) {
    list.items.push_back({.hostname = {mounted.host}, .directory = {mounted.directory}});
  }
  call.Reply(list, call.list_bytes());
}

Exports MountCalls::List(std::list<std::string>* names) const {
  Exports exports;
  names->clear();
  for (const ExportEntry& entry : *exports_->table()) {
    const Export& exported = entry.tree->exported();
    Exportnode node{.dir = {names->emplace_back(exported.directory)}};
    for (const ClientRule& rule : exported.clients) {
      node.groups.items.push_back({.name = {names->emplace_back(FormatClients(rule))}});
    }
    exports.items.push_back(std::move(node));
  }
  return exports;
}

}  // namespace pollux::nfs
