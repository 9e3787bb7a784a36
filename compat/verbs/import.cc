// Objects of another context, by their handles: ibv_import_device(3), ibv_import_pd(3),
// ibv_import_mr(3). Within the process that made them; those of another are out of reach.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "compat/loader/export.h"
#include "compat/verbs/context.h"
#include "compat/verbs/error_number.h"
#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// 0, or why `cmd_fd` is not that of a context of this process.
int CheckCommandFd(int cmd_fd) {
  const absl::StatusOr<Runtime*> runtime = Runtime::Get();
  if (!runtime.ok()) return ENODEV;
  struct stat given, own;
  if (fstat(cmd_fd, &given) != 0 || fstat((*runtime)->command_fd(), &own) != 0) return errno;
  return SameFile(given, own) ? 0 : EOPNOTSUPP;
}

}  // namespace

// Takes over `cmd_fd`: closing the context closes it.
POLLUX_EXPORT ibv_context* pollux_ibv_import_device(int cmd_fd) {
  if (const int error = CheckCommandFd(cmd_fd); error != 0) {
    Failed(error);
    return nullptr;
  }
  Context* context = OpenContext();
  if (context == nullptr) return nullptr;
  close(context->context.cmd_fd);
  context->context.cmd_fd = cmd_fd;
  return &context->context;
}

POLLUX_EXPORT ibv_pd* pollux_ibv_import_pd(ibv_context* context, uint32_t handle) {
  if (Runtime::IsCopy()) return nullptr;
  ScopedWorkerOwnership owned(Of(context)->runtime);
  const auto found = owned.domains().find(handle);
  if (found != owned.domains().end()) return MakePd(context, found->second);
  Failed(EINVAL);
  return nullptr;
}

POLLUX_EXPORT void pollux_ibv_unimport_pd(ibv_pd* pd) { delete Of(pd); }

POLLUX_EXPORT ibv_mr* pollux_ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  if (Runtime::IsCopy()) return nullptr;
  ScopedWorkerOwnership owned(Of(pd->context)->runtime);
  const memory::ProtectionDomain* domain = Of(pd)->native;
  const memory::MemoryRegion* found = domain->regions->Find(handle);
  if (found != nullptr && !found->is_window() && found->pd == domain) return MakeMr(pd, *found);
  Failed(EINVAL);
  return nullptr;
}

POLLUX_EXPORT void pollux_ibv_unimport_mr(ibv_mr* mr) { delete Of(mr); }

}  // namespace pollux::compat
