#pragma once

/// RAILYARD_INVARIANT(condition): what always holds in a correct core. With RAILYARD_CHECKED (builds of the core's tests
/// and under sanitizers) the process ends with the broken condition and its place; other builds do not evaluate it.
/// RAILYARD_CHECKED_ONLY(code): state that only conditions read.
#ifdef RAILYARD_CHECKED
#include <cstdio>
#include <cstdlib>
#define RAILYARD_INVARIANT(condition)                                                                            \
  ((condition) ? static_cast<void>(0)                                                                            \
               : (std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition), std::abort()))
#define RAILYARD_CHECKED_ONLY(...) __VA_ARGS__
#else
#define RAILYARD_INVARIANT(condition) static_cast<void>(0)
#define RAILYARD_CHECKED_ONLY(...)
#endif
