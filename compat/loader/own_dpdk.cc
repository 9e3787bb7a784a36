// In place of dlopen() for the DPDK that is linked into this library (--wrap).

// EAL takes itself for a shared build if librte_eal.so is loaded in its process. Without this,
// when the program has loaded it, Pollux's EAL would load all drivers of the system, which would
// register with the program's EAL. Nothing else here calls dlopen().
extern "C" void* __wrap_dlopen(const char* /*file*/, int /*mode*/) { return nullptr; }
