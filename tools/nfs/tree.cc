#include "tools/nfs/tree.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nfs/v3/directories.h"
#include "nfs/v3/files.h"
#include "tools/common/report.h"

namespace pollux::tools {
namespace {

using nfs::Ftype3;
using nfs::Nfsstat3;
using nfs::Procedure;

constexpr uint32_t kPageBytes = nfs::kMaxDirectoryBytes;

// The components of a path, the first one last.
std::vector<std::string> Components(absl::string_view path) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name != ".") names.emplace_back(name);
  }
  std::reverse(names.begin(), names.end());
  return names;
}

absl::Status LeadsOut(const std::string& what, absl::string_view how) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": a symbolic link leads out of the export (", how, ")"));
}

}  // namespace

std::string NfsTree::Name(const std::string& path) const {
  const auto names = Components(path);
  std::string name = base_ == "/" ? "" : base_;
  for (auto it = names.rbegin(); it != names.rend(); ++it) absl::StrAppend(&name, "/", *it);
  return name.empty() ? "/" : name;
}

CallOutcome<NfsTree::Object> NfsTree::Lookup(const nfs::NfsFh3& dir, const std::string& name,
                                             const std::string& what) {
  struct Found {
    nfs::NfsFh3 handle;
    nfs::PostOpAttr attributes;
  };
  CallOutcome<Found> found =
      Ask<nfs::LookupRes>(server_, Procedure::kLookup, nfs::LookupArgs{.dir = dir, .name = {name}},
                          {}, what, [](const nfs::LookupRes& results) {
                            return Found{results.resok.object, results.resok.obj_attributes};
                          });
  if (!found.status.ok()) return {.status = found.status, .stat = found.stat, .value = {}};
  if (found.value->attributes.has_value()) {
    return {.status = absl::OkStatus(),
            .stat = found.stat,
            .value = Object{found.value->handle, *found.value->attributes}};
  }
  return Ask<nfs::GetattrRes>(server_, Procedure::kGetattr, nfs::GetattrArgs{found.value->handle},
                              {}, what, [&](const nfs::GetattrRes& results) {
                                return Object{found.value->handle, results.resok};
                              });
}

absl::StatusOr<NfsTree::Walk> NfsTree::Begin(const std::string& path) {
  Walk walk;
  walk.left = Components(path);
  auto root = Ask<nfs::GetattrRes>(server_, Procedure::kGetattr, nfs::GetattrArgs{root_}, {},
                                   Name(""), [&](const nfs::GetattrRes& results) {
                                     return Object{root_, results.resok};
                                   });
  if (!root.status.ok()) return root.status;
  walk.dirs.push_back(*root.value);
  return walk;
}

absl::StatusOr<std::string> NfsTree::ReadLink(const nfs::NfsFh3& link, const std::string& what) {
  std::vector<uint8_t> room(nfs::kMaxNfspath3);
  auto text = Ask<nfs::ReadlinkRes>(server_, Procedure::kReadlink, nfs::ReadlinkArgs{link},
                                    {.item = absl::MakeSpan(room)}, what,
                                    [](const nfs::ReadlinkRes& results) {
                                      const auto& bytes = results.resok.data.bytes;
                                      return std::string(bytes.begin(), bytes.end());
                                    });
  if (!text.status.ok()) return text.status;
  return *std::move(text.value);
}

absl::Status NfsTree::FollowLink(const Object& link, const std::string& what, Walk* walk) {
  if (++walk->links > kMaxLinks) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": more than ", kMaxLinks, " symbolic links in a row"));
  }
  const auto target = ReadLink(link.handle, what);
  if (!target.ok()) return target.status();
  if (!target->empty() && target->front() == '/') return LeadsOut(what, Printable(*target));
  for (std::string& name : Components(*target)) walk->left.push_back(std::move(name));
  return absl::OkStatus();
}

absl::Status NfsTree::Step(const std::string& name, bool follow, const std::string& what,
                           Walk* walk) {
  if (++walk->components > kMaxComponents) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": more than ", kMaxComponents, " names in the path"));
  }
  if (name == "..") {
    walk->dirs.pop_back();
    return walk->dirs.empty() ? LeadsOut(what, "..") : absl::OkStatus();
  }
  const auto found = Lookup(walk->dirs.back().handle, name, what);
  if (!found.status.ok()) return found.status;
  if (found.value->attributes.type == Ftype3::kLnk && follow) {
    return FollowLink(*found.value, what, walk);
  }
  walk->dirs.push_back(*found.value);
  return absl::OkStatus();
}

absl::StatusOr<NfsTree::Object> NfsTree::Resolve(const std::string& path, bool follow) {
  absl::StatusOr<Walk> walk = Begin(path);
  if (!walk.ok()) return walk.status();
  while (!walk->left.empty()) {
    const std::string name = std::move(walk->left.back());
    walk->left.pop_back();
    absl::Status status = Step(name, follow || !walk->left.empty(), Name(path), &*walk);
    if (!status.ok()) return status;
  }
  return walk->dirs.back();
}

absl::StatusOr<NfsTree::Place> NfsTree::ResolvePlace(const std::string& path) {
  const std::vector<std::string> names = Components(path);
  if (names.empty()) return Place{.dir = root_, .name = {}, .path = Name(path)};
  const size_t slash = path.find_last_not_of('/');
  const auto dir = Resolve(path.substr(0, path.rfind('/', slash) + 1), true);
  if (!dir.ok()) return dir.status();
  return Place{.dir = dir->handle, .name = names.front(), .path = Name(path)};
}

absl::StatusOr<NfsTree::Object> NfsTree::At(const Place& place) {
  auto found = Lookup(place.dir, place.name, place.path);
  if (!found.status.ok()) return found.status;
  return *found.value;
}

CallOutcome<Nothing> NfsTree::NextPage(const Object& dir, const std::string& what,
                                       Listing* listing) {
  if (has_readdirplus_) {
    CallOutcome<Nothing> page = NextPageWithAttributes(dir, what, listing);
    if (listing->cookie != 0 || !absl::IsUnimplemented(page.status)) return page;
    has_readdirplus_ = false;
  }
  return NextPageOfNames(dir, what, listing);
}

CallOutcome<Nothing> NfsTree::NextPageWithAttributes(const Object& dir, const std::string& what,
                                                     Listing* listing) {
  const nfs::ReaddirplusArgs arguments{.dir = dir.handle,
                                       .cookie = listing->cookie,
                                       .cookieverf = listing->verifier,
                                       .dircount = kPageBytes,
                                       .maxcount = kPageBytes};
  const nfs::Client::Room room{.item = {}, .max_result_bytes = 4 + kPageBytes};
  return Ask<nfs::ReaddirplusRes>(
      server_, Procedure::kReaddirplus, arguments, room, what,
      [listing](const nfs::ReaddirplusRes& results) {
        for (const nfs::Entryplus3& entry : results.resok.entries.items) {
          listing->cookie = entry.cookie;
          const std::string name(entry.name.text);
          if (name == "." || name == "..") continue;
          if (entry.name_attributes.has_value()) {
            listing->entries.push_back({.name = name, .attributes = *entry.name_attributes});
          } else {
            listing->bare.push_back(name);
          }
        }
        listing->verifier = results.resok.cookieverf;
        // A page with nothing in it that is not the last would come again for ever.
        listing->eof = results.resok.eof || results.resok.entries.items.empty();
        return Nothing();
      });
}

CallOutcome<Nothing> NfsTree::NextPageOfNames(const Object& dir, const std::string& what,
                                              Listing* listing) {
  const nfs::ReaddirArgs arguments{.dir = dir.handle,
                                   .cookie = listing->cookie,
                                   .cookieverf = listing->verifier,
                                   .count = kPageBytes};
  const nfs::Client::Room room{.item = {}, .max_result_bytes = 4 + kPageBytes};
  return Ask<nfs::ReaddirRes>(server_, Procedure::kReaddir, arguments, room, what,
                              [listing](const nfs::ReaddirRes& results) {
                                for (const nfs::Entry3& entry : results.resok.entries.items) {
                                  listing->cookie = entry.cookie;
                                  const std::string name(entry.name.text);
                                  if (name != "." && name != "..") listing->bare.push_back(name);
                                }
                                listing->verifier = results.resok.cookieverf;
                                listing->eof =
                                    results.resok.eof || results.resok.entries.items.empty();
                                return Nothing();
                              });
}

// What the pages left out: attributes, and where symbolic links point.
absl::Status NfsTree::Complete(const Object& dir, const std::string& what, Listing* listing) {
  for (const std::string& name : listing->bare) {
    const auto found = Lookup(dir.handle, name, absl::StrCat(what, "/", Printable(name)));
    if (found.stat == Nfsstat3::kNoent) continue;  // removed since
    if (!found.status.ok()) return found.status;
    listing->entries.push_back({.name = name, .attributes = found.value->attributes});
  }
  for (Entry& entry : listing->entries) {
    if (entry.attributes.type != Ftype3::kLnk) continue;
    const std::string path = absl::StrCat(what, "/", Printable(entry.name));
    const auto link = Lookup(dir.handle, entry.name, path);
    if (link.stat == Nfsstat3::kNoent) continue;
    if (!link.status.ok()) return link.status;
    const auto target = ReadLink(link.value->handle, path);
    if (!target.ok()) return target.status();
    entry.target = *target;
  }
  std::sort(listing->entries.begin(), listing->entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NfsTree::Entry>> NfsTree::List(const Object& dir,
                                                          const std::string& what) {
  Listing listing;
  for (int restarts = 0; !listing.eof;) {
    const CallOutcome<Nothing> page = NextPage(dir, what, &listing);
    if (page.stat == Nfsstat3::kBadCookie && restarts++ < kMaxRestarts) {
      listing = Listing();
      continue;
    }
    if (!page.status.ok()) return page.status;
    if (listing.entries.size() + listing.bare.size() > kMaxEntries) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, ": more than ", kMaxEntries, " entries"));
    }
  }
  if (absl::Status status = Complete(dir, what, &listing); !status.ok()) return status;
  return std::move(listing.entries);
}

absl::Status NfsTree::Remove(const Place& place, bool directory) {
  const uint64_t reconnects =
      server_.node.Run([this] { return server_.client.rpc().counters().reconnects; });
  const auto removed =
      Ask<nfs::RemoveRes>(server_, directory ? Procedure::kRmdir : Procedure::kRemove,
                          nfs::RemoveArgs{.dir = place.dir, .name = {place.name}}, place.path);
  // Done already, by the call that lost its reply with the connection.
  const bool again = removed.stat == Nfsstat3::kNoent && server_.node.Run([this] {
    return server_.client.rpc().counters().reconnects;
  }) > reconnects;
  return again ? absl::OkStatus() : removed.status;
}

}  // namespace pollux::tools
