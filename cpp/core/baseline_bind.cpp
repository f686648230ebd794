// Two names that inline code of GCC 11 and newer uses and that only a libstdc++ and a glibc of that age have. Hidden: no
// other library sees them. In the extension only: a program takes those of the machine.
#include "core/baseline.hpp"

#ifdef RAILYARD_BASELINE

#include <new>

#define RAILYARD_HERE __attribute__((visibility("hidden")))

extern "C" {

// glibc 2.32: whether the process has one thread, so that shared_ptr may count without atomics. We never say so.
RAILYARD_HERE extern const char __libc_single_threaded;
const char __libc_single_threaded = 0;

}  // extern "C"

namespace std {

[[noreturn]] RAILYARD_HERE void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std

#endif
