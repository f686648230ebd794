#include "packet/balance/path_choice.hpp"

#include <map>
#include <stdexcept>

namespace railyard::packet {

namespace {

std::map<std::string, PathChoice::Make>& makers() {
  static std::map<std::string, PathChoice::Make> all;
  return all;
}

}  // namespace

void PathChoice::add(const std::string& name, Make make) { makers()[name] = make; }

std::unique_ptr<PathChoice> PathChoice::of(std::uint32_t flows, const Options& options) {
  const auto found = makers().find(options.load_balancing);
  if (found == makers().end()) throw std::invalid_argument("no load balancing '" + options.load_balancing + "'");
  return found->second(flows, options);
}

}  // namespace railyard::packet
