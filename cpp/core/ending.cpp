#include "core/ending.hpp"

#include <signal.h>
#include <unistd.h>

#include <string>

namespace railyard {

namespace {

std::string* said = nullptr;  // never freed: a handler may need it until the very end
int code_then = 1;

// Only calls that a handler may make.
void end(int) {
  if (write(STDERR_FILENO, said->data(), said->size()) < 0) _exit(code_then);
  _exit(code_then);
}

}  // namespace

void end_on_abort(const char* words, int code) {
  if (said != nullptr) return;
  said = new std::string(words);
  code_then = code;
  struct sigaction action = {};
  action.sa_handler = end;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace railyard
