#pragma once

#include <cstdint>
#include <string>

#include "core/time.hpp"
#include "packet/stuck.hpp"

namespace railyard::packet {

/// Ends a run in which flows are under way and nothing arrives at any host: by a timer that runs out again and again, or
/// because nothing is due any more.
class Progress {
 public:
  /// No sensible timeout is longer: 60 s.
  static constexpr Ps kMost = 60'000'000'000'000;

  explicit Progress(std::uint32_t flows) : flows_(flows) {}

  void started(bool sends, Ps now) {
    ++(sends ? started_ : local_);
    last_ = now;
  }
  void arrived(Ps now) { last_ = now; }

  /// Asked now and then. Throws `Stuck`.
  void check(std::uint32_t unfinished, Ps now) const {
    const std::uint32_t sending = started_ + local_ + unfinished - flows_;
    if (sending != 0 && now - last_ > kMost)
      throw Stuck("nothing has arrived at any host since " + std::to_string(last_ / 1'000'000) + " us, while " +
                  std::to_string(sending) + " flows are under way");
  }

 private:
  std::uint32_t flows_, started_ = 0, local_ = 0;
  Ps last_ = 0;
};

}  // namespace railyard::packet
