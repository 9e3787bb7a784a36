#include "nfs/server/mount_calls.h"

#include <algorithm>
#include <vector>

#include "nfs/codec.h"
#include "nfs/server/errno_status.h"
#include "rpcrdma/xdr.h"
#include "stack/net/address.h"

namespace pollux::nfs {
namespace {

using rpcrdma::AcceptStatus;

// Whether `path` is the export's directory or below; then what is left of it.
bool IsBelow(std::string_view path, std::string_view directory, std::string_view* rest) {
  if (path.substr(0, directory.size()) != directory) return false;
  *rest = path.substr(directory.size());
  return rest->empty() || rest->front() == '/' || directory == "/";
}

template <class T>
AcceptStatus Put(const T& value, absl::Span<uint8_t> results, size_t* bytes) {
  const Encoded encoded = Encode(value, results);
  *bytes = encoded.stream.size();
  return encoded.ok ? AcceptStatus::kSuccess : AcceptStatus::kSystemError;
}

}  // namespace

size_t MountCalls::Answer(absl::Span<const uint8_t> message, const Gid& client,
                          absl::Span<uint8_t> reply) {
  rpcrdma::CallHeader call;
  const size_t header_bytes = rpcrdma::ParseCall(message, &call);
  if (header_bytes == 0) return 0;
  rpcrdma::ReplyHeader header{.xid = call.xid};
  if (call.rpc_version != rpcrdma::kRpcVersion) {
    header.denied = true;
    header.low = header.high = rpcrdma::kRpcVersion;
    return rpcrdma::EmitReply(header, reply);
  }
  size_t bytes = 0;
  if (call.program != kMountProgram) {
    header.accept_status = AcceptStatus::kProgramUnavailable;
  } else if (call.version != kMountV3) {
    header.accept_status = AcceptStatus::kProgramMismatch;
    header.low = header.high = kMountV3;
  } else {
    header.accept_status = Serve(call.procedure, message.subspan(header_bytes), client,
                                 reply.subspan(rpcrdma::kReplyHeaderBytes), &bytes);
  }
  const size_t emitted = rpcrdma::EmitReply(header, reply);
  return header.accept_status == AcceptStatus::kSuccess ? emitted + bytes : emitted;
}

AcceptStatus MountCalls::Serve(uint32_t procedure, absl::Span<const uint8_t> arguments,
                               const Gid& client, absl::Span<uint8_t> results, size_t* bytes) {
  const rpcrdma::XdrReader reader(arguments);
  const std::string host = net::FormatAddress(client);
  Dirpath path;
  std::list<std::string> names;
  switch (static_cast<MountProcedure>(procedure)) {
    case MountProcedure::kNull:
      return AcceptStatus::kSuccess;
    case MountProcedure::kMnt:
      if (!Decode(reader, &path)) return AcceptStatus::kGarbageArguments;
      return Put(Mount(path.path.text, client), results, bytes);
    case MountProcedure::kDump:
      return Put(Dump(), results, bytes);
    case MountProcedure::kUmnt:
      if (!Decode(reader, &path)) return AcceptStatus::kGarbageArguments;
      std::erase(mounted_, Mounted{host, std::string(path.path.text)});
      return AcceptStatus::kSuccess;
    case MountProcedure::kUmntall:
      std::erase_if(mounted_, [&](const Mounted& mounted) { return mounted.host == host; });
      return AcceptStatus::kSuccess;
    case MountProcedure::kExport:
      return Put(List(&names), results, bytes);
  }
  return AcceptStatus::kProcedureUnavailable;
}

MountRes MountCalls::Mount(std::string_view path, const Gid& client) {
  const ExportTree* tree = nullptr;
  std::string_view rest;
  // Of exports inside each other the innermost.
  for (const auto& served : exports_->all()) {
    const std::string& directory = served->tree->exported().directory;
    std::string_view below;
    if (!IsBelow(path, directory, &below)) continue;
    if (tree != nullptr && tree->exported().directory.size() > directory.size()) continue;
    tree = served->tree.get();
    rest = below;
  }
  if (tree == nullptr || !tree->exported().Admits(client)) return {.status = Nfsstat3::kAcces};
  Fd directory;
  struct stat attributes;
  Nfsstat3 status = tree->Walk(rest, &directory);
  if (status == Nfsstat3::kOk && fstat(directory.get(), &attributes) == 0 &&
      !S_ISDIR(attributes.st_mode)) {
    status = Nfsstat3::kNotdir;
  }
  if (status != Nfsstat3::kOk) return {.status = status};
  const std::optional<NfsFh3> handle = tree->HandleOf(directory);
  if (!handle.has_value()) return {.status = Nfsstat3::kServerfault};
  Mounted mounted{net::FormatAddress(client), std::string(path)};
  std::erase(mounted_, mounted);
  mounted_.push_back(std::move(mounted));
  if (mounted_.size() > kMaxRemembered) mounted_.pop_front();
  MountRes result;
  result.resok.fhandle = *handle;
  for (const auto flavor : {rpcrdma::AuthFlavor::kSys, rpcrdma::AuthFlavor::kNone}) {
    result.resok.auth_flavors.items.push_back(static_cast<uint32_t>(flavor));
  }
  return result;
}

Mountlist MountCalls::Dump() const {
  Mountlist list;
  for (const Mounted& mounted : mounted_) {
    list.items.push_back({.hostname = {mounted.host}, .directory = {mounted.directory}});
  }
  return list;
}

Exports MountCalls::List(std::list<std::string>* names) const {
  Exports exports;
  names->clear();
  for (const auto& served : exports_->all()) {
    const Export& exported = served->tree->exported();
    Exportnode node{.dir = {exported.directory}};
    for (const Network& network : exported.clients) {
      node.groups.items.push_back({.name = {names->emplace_back(FormatNetwork(network))}});
    }
    exports.items.push_back(std::move(node));
  }
  return exports;
}

}  // namespace pollux::nfs
