#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "packet/context.hpp"
#include "packet/wire.hpp"

namespace railyard::packet {

/// Cables: whether what was sent over a link arrives. A link that is down loses what is on it; bit errors lose packets, or,
/// with link-level retry, hold them and all behind them until they have been sent again.
class LinkLayer {
 public:
  explicit LinkLayer(Context& context) : context_(context) {}

  /// Whether there has been any fault: without one nothing need be asked.
  bool faulty() const { return faulty_; }

  void set_down(std::uint32_t link, bool down) { at(link).down = down; }
  bool down(std::uint32_t link) const { return links_[link].down; }
  void set_errors(std::uint32_t link, double per_bit) {
    State& state = at(link);
    state.errors = per_bit;
    state.log_intact = std::log1p(-per_bit);
  }
  double errors(std::uint32_t link) const { return links_[link].errors; }
  /// The chance that a packet of so many bytes arrives wrong: of n bits, each wrong with chance e, 1 - (1 - e)^n.
  double loss(std::uint32_t link, std::int64_t bytes) const { return loss(links_[link], bytes); }

  /// Whether the packet arrives now. If not it has been taken: lost, or due later.
  bool passes(std::uint32_t index) {
    lost_ = false;
    Packet& packet = context_.slab[index];
    State& state = links_[packet.link];
    if (state.down) return lose(index);
    if ((packet.flags & kHeld) != 0) {
      packet.flags &= static_cast<std::uint16_t>(~kHeld);
      return true;
    }
    const bool wrong = state.errors > 0 && hit(packet, state);
    if (wrong && !context_.options.link_retry) return lose(index);
    if (wrong) {
      ++context_.outcome.counters.link_retries;
      // The request to send again, and the packet once more.
      return hold(index, state, 2 * context_.network.latency_ps[packet.link]);
    }
    // One held until now comes first, whichever of the two events is dealt with first.
    return state.held_until < context_.now || hold(index, state, 0);
  }
  /// Whether what did not pass last was lost.
  bool lost() const { return lost_; }

 private:
  struct State {
    bool down = false;
    double errors = 0;
    double log_intact = 0;  ///< Logarithm of the chance that one bit arrives right.
    Ps held_until = 0;
    std::uint32_t draws = 0;
  };

  State& at(std::uint32_t link) {
    faulty_ = true;
    if (links_.empty()) links_.resize(context_.network.link_source.size());
    return links_[link];
  }

  bool lose(std::uint32_t index) {
    ++context_.outcome.counters.lost;
    context_.slab.release(index);
    lost_ = true;
    return false;
  }

  /// WHY each error holds the link longer: its sender goes back, so that what is behind is sent again, one after another.
  bool hold(std::uint32_t index, State& state, Ps extra) {
    Packet& packet = context_.slab[index];
    packet.flags |= kHeld;
    packet.following = kNone;  // the link chosen ahead may be down when the packet comes
    const auto rate = static_cast<std::uint64_t>(context_.network.rate_bps[packet.link]);
    state.held_until = std::max(state.held_until, context_.now) + extra + wire_time(packet.size, rate);
    context_.wheel.push(state.held_until, event(Event::arrival, index), packet.link);
    return false;
  }

  static double loss(const State& state, std::int64_t bytes) {
    return -std::expm1(8.0 * static_cast<double>(bytes) * state.log_intact);
  }

  bool hit(const Packet& packet, State& state) {
    const std::uint64_t key = stream_key(context_.options.seed, Stream::errors, packet.link);
    const auto limit = static_cast<double>(std::uint64_t{1} << 53);
    const double drawn = static_cast<double>(draw(key, state.draws++) >> 11) / limit;
    return drawn < loss(state, packet.size);
  }

  Context& context_;
  bool faulty_ = false, lost_ = false;
  std::vector<State> links_;
};

}  // namespace railyard::packet
