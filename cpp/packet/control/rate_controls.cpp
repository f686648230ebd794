#include "packet/control/rate_controls.hpp"

#include <map>
#include <stdexcept>

#include "packet/transport/rdma_options.hpp"

namespace railyard::packet {

namespace {

struct Entry {
  RateControls::Make make = nullptr;
  bool telemetry = false;
};

std::map<std::string, Entry>& entries() {
  static std::map<std::string, Entry> all;
  return all;
}

const Entry& entry_of(const Options& options) {
  const std::string& name = options.of<RdmaOptions>().control;
  const auto found = entries().find(name);
  if (found == entries().end()) throw std::invalid_argument("no rate control '" + name + "'");
  return found->second;
}

}  // namespace

void RateControls::add(const std::string& name, Make make, bool telemetry) { entries()[name] = {make, telemetry}; }

std::unique_ptr<RateControls> RateControls::of(const Options& options, const Derived& derived, std::size_t flows) {
  return entry_of(options).make(options, derived, flows);
}

bool RateControls::reads_telemetry(const Options& options) { return entry_of(options).telemetry; }

}  // namespace railyard::packet
