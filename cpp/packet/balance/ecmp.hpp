#pragma once

#include "packet/draws.hpp"

namespace railyard::packet {

/// One entropy a flow: the hash of classic equal-cost multipath.
class SinglePath {
 public:
  explicit SinglePath(std::uint64_t seed) : seed_(seed) {}

  std::uint16_t next(std::uint32_t flow) const {
    return static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), 0));
  }

 private:
  std::uint64_t seed_;
};

}  // namespace railyard::packet
