#pragma once

#include <cstdint>

#include "packet/options.hpp"

namespace railyard::packet {

/// Of Ultra Ethernet's transport and of EQDS, which shares its acknowledgements.
struct UecOptions {
  std::int64_t sack_bytes = 16384;  ///< Bytes accepted before an acknowledgement goes out unasked.
};

struct NsccOptions {
  std::uint32_t quick_adapt_gate = 3;  ///< Quick adapt below max window >> gate.
};

struct RcccOptions {
  double oversubscription = 1;  ///< Of the fabric; above 1 receivers slow their credit by marks and trims.
};

}  // namespace railyard::packet
