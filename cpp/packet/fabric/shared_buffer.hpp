#pragma once

#include <algorithm>
#include <cstdint>

#include "core/invariant.hpp"
#include "core/time.hpp"
#include "packet/fabric/pfc_options.hpp"

namespace railyard::packet {

/// What one ingress and class holds of its switch's buffer.
struct Ingress {
  std::int64_t bytes = 0;     ///< In its guarantee and in the shared part.
  std::int64_t headroom = 0;  ///< Came after the pause was sent.
  Ps since = 0;               ///< When the pause began.
  bool paused = false;        ///< The upstream neighbour has been told to stop.
  bool lossy = false;         ///< It is never told to: what has no room is dropped.
};

/// The shared part of a switch's buffer.
struct Pool {
  std::int64_t size = 0, used = 0;

  std::int64_t free() const { return size - used; }
};

/// The bytes that may come in over a link after its ingress has found its threshold reached: the packet that found it;
/// those on the wire, both while the pause travels and behind it; a packet that the pause frame must let pass on its way
/// out and one that the neighbour has begun when it arrives; and whatever comes while it reacts.
///   2 delay rate + 3 MTU + frame + response rate
inline std::int64_t headroom_of(double rate_bps, Ps delay, Ps response, std::int64_t mtu, std::int64_t frame) {
  const double flying = (2.0 * static_cast<double>(delay) + static_cast<double>(response)) * 1e-12 * rate_bps / 8;
  return static_cast<std::int64_t>(flying) + 1 + 3 * mtu + frame;
}

/// The rules of a buffer that all ingresses of a switch share: how much each may hold before its neighbour is paused.
///
/// Static: above xoff_bytes, until below xon_bytes (htsim's LosslessInputQueue). Dynamic (Choudhury and Hahne 1998; HPCC's
/// SwitchMmu): a packet goes to the shared part while what its ingress holds beyond its guarantee stays within
/// alpha x free, else to the headroom; the neighbour is paused while there is anything in the headroom or the threshold is
/// reached, and let go when what is held lies `resume_bytes` below the threshold.
class BufferRules {
 public:
  explicit BufferRules(const PfcOptions& options)
      : fixed_(options.fixed()), xoff_(options.xoff_bytes),
        xon_(options.xon_bytes > 0 ? options.xon_bytes : options.xoff_bytes * 4 / 5), reserve_(options.reserve_bytes),
        resume_(options.resume_bytes), alpha_(options.alpha), lossy_alpha_(options.lossy_alpha) {}

  bool fixed() const { return fixed_; }
  std::int64_t threshold(const Pool& pool) const {
    return static_cast<std::int64_t>(alpha_ * static_cast<double>(pool.free()));
  }
  std::int64_t shared(const Ingress& in) const { return std::max<std::int64_t>(in.bytes - reserve_, 0); }

  /// Whether a packet would be within the threshold.
  bool within(const Ingress& in, const Pool& pool, std::int64_t size) const {
    if (fixed_) return in.bytes + size <= xoff_;
    const std::int64_t after = in.bytes + size - reserve_;
    return after <= 0 || (after <= threshold(pool) && std::min(after, size) <= pool.free());
  }

  /// Takes in a packet. PRE: `inside` is what `within` said.
  void take(Ingress& in, Pool& pool, std::int64_t size, bool inside) const {
    if (inside || fixed_) {
      const std::int64_t before = shared(in);
      in.bytes += size;
      pool.used += shared(in) - before;
    } else {
      in.headroom += size;
    }
    check(in, pool);
  }

  /// A packet has left; the headroom is emptied first.
  void give(Ingress& in, Pool& pool, std::int64_t size) const {
    const std::int64_t spare = std::min(in.headroom, size);
    const std::int64_t before = shared(in);
    in.headroom -= spare;
    in.bytes -= size - spare;
    pool.used -= before - shared(in);
    check(in, pool);
  }

  bool should_pause(const Ingress& in, const Pool& pool) const {
    if (fixed_) return in.bytes > xoff_;
    return in.headroom > 0 || shared(in) >= std::max<std::int64_t>(threshold(pool), 1);
  }

  bool may_resume(const Ingress& in, const Pool& pool) const {
    if (fixed_) return in.bytes < xon_;
    const std::int64_t held = shared(in);
    return in.headroom == 0 && (held == 0 || held + resume_ <= threshold(pool));
  }

  /// Whether the queue of a lossy class that holds so much may take another packet.
  bool lossy_fits(std::int64_t queued, const Pool& pool, std::int64_t size) const {
    return size <= pool.free() &&
           static_cast<double>(queued + size) <= lossy_alpha_ * static_cast<double>(pool.free());
  }

 private:
  /// Nobody gives more than was taken, and the shared part holds no more than there is of it.
  void check(const Ingress& in, const Pool& pool) const {
    RAILYARD_INVARIANT(in.bytes >= 0 && in.headroom >= 0 && pool.used >= 0);
    RAILYARD_INVARIANT(fixed_ || pool.used <= pool.size);
    static_cast<void>(in), static_cast<void>(pool);
  }

  bool fixed_;
  std::int64_t xoff_, xon_, reserve_, resume_;
  double alpha_, lossy_alpha_;
};

}  // namespace railyard::packet
