#pragma once

#include <string>

#include "packet/run.hpp"

namespace railyard::packet {

using Runner = Outcome(const NetworkColumns&, const TrafficColumns&, const Options&, const Derived&, const Heartbeat&);

/// Puts the runner of a transport over switches on the list; each pair has a source file, since they take long to compile.
struct RunnerOf {
  RunnerOf(const std::string& transport, const std::string& switching, Runner* runner);
};

/// Throws std::invalid_argument where a transport does not go over these switches.
Runner* runner_of(const Options& options);

}  // namespace railyard::packet
