#pragma once

#include <stdexcept>

namespace railyard::packet {

/// A run that would never end: a deadlock by pauses or credits, or nothing arrives any more. The text says what and where.
class Stuck : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace railyard::packet
