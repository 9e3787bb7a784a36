#include "compat/runtime/memif_sockets.h"

#include <sys/stat.h>
#include <unistd.h>

#include "compat/process/descriptors.h"
#include "stack/io/port/devargs.h"

namespace pollux::compat {
namespace {

constexpr char kDefaultAddress[] = "/run/memif.sock";  // DPDK's, of the driver's argument "socket"

}  // namespace

std::unique_ptr<MemifSockets> MemifSockets::Of(const std::string& port) {
  const absl::StatusOr<io::Devargs> devargs = io::Devargs::Parse(port);
  if (!devargs.ok() || devargs->driver() != io::Driver::kMemif) return nullptr;
  auto sockets = std::make_unique<MemifSockets>(devargs->Get("socket").value_or(kDefaultAddress));
  const bool has_path = devargs->Get("socket") && devargs->Get("socket-abstract") != "yes";
  if (has_path && devargs->Get("role") == "server") sockets->file_ = sockets->FileNow();
  return sockets;
}

void MemifSockets::OnPortEvent(uint8_t /*port_num*/, ibv_event_type /*event*/) {
  CloseOnExec(SocketsAt(address_));
}

void MemifSockets::LetGo() const { compat::LetGo(SocketsAt(address_)); }

std::optional<MemifSockets::File> MemifSockets::FileNow() const {
  struct stat status {};
  if (lstat(address_.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
  return File{status.st_dev, status.st_ino};
}

void MemifSockets::RemoveFile() const {
  const std::optional<File> now = FileNow();
  if (!file_ || !now || now->device != file_->device || now->inode != file_->inode) return;
  unlink(address_.c_str());
}

}  // namespace pollux::compat
