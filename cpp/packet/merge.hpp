#pragma once

#include <vector>

#include "packet/options.hpp"

namespace railyard::packet {

/// The outcome of a whole run from those of its parts. PRE: not empty; every flow's time is known to one part at most.
Outcome merge(std::vector<Outcome> parts);

}  // namespace railyard::packet
