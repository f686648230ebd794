#pragma once

#include <stdexcept>

namespace railyard::packet {

/// A part of a network in which nothing moves; whether links wait for each other for ever, only the whole can tell.
struct Frozen : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace railyard::packet
