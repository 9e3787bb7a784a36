// What the fronts jump to: exports.txt says which export of libibverbs or librdmacm is served by
// the function of the same name behind the prefix pollux_.
#ifndef POLLUX_COMPAT_LOADER_EXPORT_H_
#define POLLUX_COMPAT_LOADER_EXPORT_H_

#define POLLUX_EXPORT extern "C" __attribute__((visibility("default")))

#endif  // POLLUX_COMPAT_LOADER_EXPORT_H_
