#pragma once

// Included before every file of the core (CMakeLists.txt): what is built on a new Linux also loads on one of 2018
// (manylinux_2_28). glibc 2.29 gave these functions new versions whose values are those of the old ones; they differ in
// how they report errors, which nobody reads here. `baseline_bind.cpp` holds what the compiler itself asks of a newer
// runtime; `make wheel` fails when something else does.
#if defined(__x86_64__) && __has_include(<gnu/libc-version.h>)
#define RAILYARD_BASELINE 1
__asm__(
    ".symver exp, exp@GLIBC_2.2.5\n"
    ".symver exp2, exp2@GLIBC_2.2.5\n"
    ".symver log, log@GLIBC_2.2.5\n"
    ".symver log2, log2@GLIBC_2.2.5\n"
    ".symver pow, pow@GLIBC_2.2.5\n");
#endif
