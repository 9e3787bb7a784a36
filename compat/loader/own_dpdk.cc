// In place of dlopen() for the DPDK that is linked into this library (--wrap).

// A static EAL that finds a shared one in its process takes itself for it, and loads all drivers of
// the system, which register with the other one. Nothing else here calls dlopen().
extern "C" void* __wrap_dlopen(const char* /*file*/, int /*mode*/) { return nullptr; }
