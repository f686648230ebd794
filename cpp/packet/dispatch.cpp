#include "packet/dispatch.hpp"

#include <map>
#include <stdexcept>
#include <utility>

namespace railyard::packet {

namespace {

std::map<std::pair<std::string, std::string>, Runner*>& runners() {
  static std::map<std::pair<std::string, std::string>, Runner*> all;
  return all;
}

}  // namespace

RunnerOf::RunnerOf(const std::string& transport, const std::string& switching, Runner* runner) {
  runners()[{transport, switching}] = runner;
}

Runner* runner_of(const Options& options) {
  const auto found = runners().find({options.transport, options.switching});
  if (found != runners().end()) return found->second;
  throw std::invalid_argument("transport " + options.transport + " does not go over " + options.switching + " switches");
}

}  // namespace railyard::packet
