// A test harness of sixty lines: TEST(name) { CHECK(...); } and a main() that runs all, or those whose name contains argv[1].
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace harness {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

struct Failure : std::exception {};

inline void fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  throw Failure();
}

template <class E, class F>
bool throws(F&& f, const char* word) {
  try {
    f();
  } catch (const E& error) {
    return std::strstr(error.what(), word) != nullptr;
  }
  return false;
}

inline int run(int argc, char** argv) {
  int failed = 0, ran = 0;
  for (const Test& test : tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    ++ran;
    try {
      test.body();
    } catch (const Failure&) {
      std::fprintf(stderr, "FAILED %s\n", test.name);
      ++failed;
    }
  }
  std::printf("%d tests, %d failed\n", ran, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace harness

#define TEST(name)                                                  \
  static void test_##name();                                        \
  static const harness::Registration registration_##name(#name, &test_##name); \
  static void test_##name()
#define CHECK(condition) \
  do {                   \
    if (!(condition)) harness::fail(__FILE__, __LINE__, "CHECK(" #condition ")"); \
  } while (false)
#define CHECK_THROWS(error, word, ...) CHECK((harness::throws<error>([&] { __VA_ARGS__; }, word)))
