// rdma_getaddrinfo(3): names to addresses, with the port space and queue pair type that go with
// them.
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cstdlib>
#include <cstring>

#include "compat/loader/export.h"
#include "compat/rdmacm/cm_address.h"
#include "compat/verbs/error_number.h"

namespace pollux::compat {
namespace {

sockaddr* Copy(const sockaddr* address, socklen_t length) {
  void* copy = std::malloc(length);
  if (copy != nullptr) std::memcpy(copy, address, length);
  return static_cast<sockaddr*>(copy);
}

addrinfo ToHints(const rdma_addrinfo* hints) {
  addrinfo native{};
  native.ai_socktype = SOCK_STREAM;
  if (hints == nullptr) return native;
  if ((hints->ai_flags & RAI_PASSIVE) != 0) native.ai_flags |= AI_PASSIVE;
  if ((hints->ai_flags & RAI_NUMERICHOST) != 0) native.ai_flags |= AI_NUMERICHOST;
  if (hints->ai_family == AF_INET || hints->ai_family == AF_INET6) {
    native.ai_family = hints->ai_family;
  }
  if (hints->ai_port_space == RDMA_PS_UDP) native.ai_socktype = SOCK_DGRAM;
  return native;
}

// The kind of connection that the hints ask for; a reliable one over TCP's ports otherwise.
void SetKind(const rdma_addrinfo* hints, rdma_addrinfo* info) {
  if (hints != nullptr) {
    info->ai_flags = hints->ai_flags;
    info->ai_port_space = hints->ai_port_space;
    info->ai_qp_type = hints->ai_qp_type;
  }
  if (info->ai_port_space == 0) {
    info->ai_port_space = info->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  }
  if (info->ai_qp_type == 0) {
    info->ai_qp_type = info->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
  }
}

// What a name stands for: the side that it is of, and what the other one's family must be.
void SetFound(const addrinfo& found, rdma_addrinfo* info) {
  info->ai_family = found.ai_family;
  if ((info->ai_flags & RAI_PASSIVE) != 0) {
    info->ai_src_len = found.ai_addrlen;
    info->ai_src_addr = Copy(found.ai_addr, found.ai_addrlen);
  } else {
    info->ai_dst_len = found.ai_addrlen;
    info->ai_dst_addr = Copy(found.ai_addr, found.ai_addrlen);
  }
}

// An address of the hints', where no name has given one.
void SetHinted(const sockaddr* hinted, sockaddr** address, socklen_t* length, int* family) {
  if (*address != nullptr || hinted == nullptr) return;
  const socklen_t bytes = AddressLength(hinted);
  if (bytes == 0 || (*family != AF_UNSPEC && hinted->sa_family != *family)) return;
  *family = hinted->sa_family;
  *length = bytes;
  *address = Copy(hinted, bytes);
}

}  // namespace

POLLUX_EXPORT int pollux_rdma_getaddrinfo(const char* node, const char* service,
                                          const rdma_addrinfo* hints, rdma_addrinfo** result) {
  const bool named = node != nullptr || service != nullptr;
  if (!named && hints == nullptr) return Failed(EINVAL);
  const addrinfo native = ToHints(hints);
  addrinfo* found = nullptr;
  if (named) {
    if (const int error = getaddrinfo(node, service, &native, &found); error != 0) return error;
  }
  auto* info = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (info != nullptr) {
    SetKind(hints, info);
    if (named) SetFound(*found, info);
  }
  if (named) freeaddrinfo(found);
  if (info == nullptr) return Failed(ENOMEM);
  if (hints != nullptr) {
    SetHinted(hints->ai_dst_addr, &info->ai_dst_addr, &info->ai_dst_len, &info->ai_family);
    SetHinted(hints->ai_src_addr, &info->ai_src_addr, &info->ai_src_len, &info->ai_family);
  }
  *result = info;
  return 0;
}

POLLUX_EXPORT void pollux_rdma_freeaddrinfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    rdma_addrinfo* next = info->ai_next;
    std::free(info->ai_src_addr);
    std::free(info->ai_dst_addr);
    std::free(info);
    info = next;
  }
}

}  // namespace pollux::compat
