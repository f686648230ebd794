#pragma once

#include "packet/options.hpp"

namespace railyard::packet {

/// EQDS as csg-htsim (commit 841d9e7, main_eqds.cpp) has it.
struct EqdsOptions {
  Ps timeout_ps = 150'000'000;  ///< And six times what drains a full queue.
};

/// NDP as csg-htsim (commit 841d9e7, ndp.cpp) has it.
struct NdpOptions {
  Ps timeout_ps = 5'000'000'000;
};

}  // namespace railyard::packet
