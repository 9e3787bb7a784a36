// Marks the functions to which the front libraries jump. exports.txt lists the exports of
// libibverbs and librdmacm; each is implemented by the function of the same name with the prefix
// pollux_.
#ifndef POLLUX_COMPAT_LOADER_EXPORT_H_
#define POLLUX_COMPAT_LOADER_EXPORT_H_

#define POLLUX_EXPORT extern "C" __attribute__((visibility("default")))

#endif  // POLLUX_COMPAT_LOADER_EXPORT_H_
