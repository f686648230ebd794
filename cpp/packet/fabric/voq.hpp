#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/big_vector.hpp"
#include "packet/options.hpp"
#include "packet/slab.hpp"

namespace railyard::packet {

/// A virtual output queue: packets at an ingress leaf for one egress port and class. One cache line.
struct alignas(64) Voq {
  std::uint32_t first = kNone, last = kNone;  ///< Packets.
  std::uint32_t port = 0;                     ///< Egress port.
  std::uint32_t ingress = 0, egress = 0;      ///< Leafs.
  std::uint32_t paused = kNone;               ///< First of the hosts that it has paused.
  std::int64_t bytes = 0;
  std::int64_t balance = 0;    ///< Credit not yet used; a packet may overdraw it, the next credit makes up for that.
  std::int64_t uncovered = 0;  ///< Bytes that came beyond the credits asked for; negative: covered in advance.
  std::uint32_t next = kNone;  ///< In the line for the fabric links.
  std::uint8_t klass = 0;
  bool waiting = false;        ///< In that line.
};
static_assert(sizeof(Voq) == 64);

/// What the egress leaf knows of a virtual output queue. Half a cache line.
struct alignas(32) Claim {
  std::uint32_t next = kNone;    ///< In the round of those that want credit.
  std::uint32_t wanted = 0;      ///< Credits asked for and not granted.
  std::uint32_t first = kNone;   ///< Bursts on their way, oldest first.
  std::uint32_t last = kNone;
  Ps delivered = -1;             ///< When its latest burst was complete and in order.
};
static_assert(sizeof(Claim) == 32);

/// Packets of one queue that one credit let go, packed back to back into cells. Half a cache line.
struct alignas(32) Burst {
  Ps latest = 0;                 ///< Arrival of the last cell so far.
  std::uint32_t first = kNone;   ///< Packets.
  std::uint32_t next = kNone;    ///< The queue's next burst.
  std::uint32_t voq = 0;
  std::uint32_t bytes = 0;
  std::uint32_t sample = kNone;  ///< Where its cells' arrivals are written down.
  std::uint16_t left = 0;        ///< Cells that have not come.
  bool lost = false;             ///< One of them never will.
};
static_assert(sizeof(Burst) == 32);

/// The port of a leaf to a host and the scheduler that grants its bandwidth: credits at the port's rate (and a little
/// more), to the classes in turn, and within a class to the queues that want one in turn.
struct alignas(64) EgressPort {
  static constexpr unsigned kClasses = 8;

  Ps busy_until = 0;
  Ps next_grant = 0;         ///< Not before this.
  Ps credit_time = 0;        ///< From credit to credit.
  Ps most_waiting = 0;       ///< Queue, as time, above which nothing is granted.
  Ps latency = 0;
  Ps longest_queue = 0;
  double rate_bps = 0;
  std::uint32_t link = 0, host = 0, leaf = 0;
  std::uint8_t classes = 0;  ///< Bit c: queues of class c want credit.
  std::uint8_t last_class = kClasses - 1;
  bool ticking = false;      ///< A tick is due.
  bool reserved = false;     ///< Its place in the leaf's share of the fabric is taken.
  bool live = true;
  std::array<std::uint32_t, kClasses> last{kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};  ///< Of the rounds.

  void join(BigVector<Claim>& claims, std::uint32_t voq, std::uint8_t klass) {
    if (last[klass] == kNone) {
      claims[voq].next = voq;
      classes = static_cast<std::uint8_t>(classes | 1u << klass);
    } else {
      claims[voq].next = claims[last[klass]].next;
      claims[last[klass]].next = voq;
    }
    last[klass] = voq;
  }

  /// Whose turn it is. PRE: classes != 0.
  std::uint32_t turn(const BigVector<Claim>& claims, std::uint8_t& klass) const {
    klass = last_class;
    do klass = static_cast<std::uint8_t>((klass + 1) % kClasses);
    while ((classes >> klass & 1u) == 0);
    return claims[last[klass]].next;
  }

  /// It has its credit: it goes to the end of its round, or out of it.
  void granted(BigVector<Claim>& claims, std::uint32_t voq, std::uint8_t klass) {
    last_class = klass;
    if (--claims[voq].wanted != 0) {
      last[klass] = voq;
    } else if (last[klass] == voq) {
      last[klass] = kNone;
      classes = static_cast<std::uint8_t>(classes & ~(1u << klass));
    } else {
      claims[last[klass]].next = claims[voq].next;
    }
  }
};
static_assert(sizeof(EgressPort) == 128);

}  // namespace railyard::packet
