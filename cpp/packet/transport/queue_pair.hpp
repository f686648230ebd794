#pragma once

#include <cstdint>

#include "core/time.hpp"
#include "packet/bit_window.hpp"
#include "packet/transport/nic.hpp"

namespace railyard::packet {

/// The sending end of a flow over RDMA's reliable connection. Sequence numbers count packets of the message.
struct QueuePair {
  std::uint32_t source = 0, target = 0;
  std::uint32_t packets = 0;  ///< Of the message.
  std::uint32_t acked = 0;    ///< Everything below has been acknowledged.
  std::uint32_t next = 0;     ///< What goes next; going back sets it back to the gap.
  std::uint32_t newest = 0;   ///< First number never sent.
  Place place;
  std::uint16_t last_size = 0;  ///< Of the last packet, on the wire.
  bool started = false, done = false;
  bool pacing = false;        ///< A pacer event is pending.
  double ps_per_byte = 0;     ///< Of the rate that rules; 0: the interface's own.
  std::int64_t window = 0;    ///< Bytes of payload that may be out; 0: any number.
  Ps progress = 0;            ///< When `acked` last rose, or the flow began to wait.
  Ps timer_at = 0;            ///< The timer event that counts; 0: none is pending.
  std::int64_t base_window = 0;  ///< Window before the rate scales it.
  BitWindow got, again;       ///< Out of order: acknowledged beyond `acked`; to be sent again.
};

/// The receiving end.
struct ResponderEnd {
  std::uint32_t expected = 0;    ///< First sequence number not received.
  std::uint16_t unanswered = 0;  ///< Packets taken since the last acknowledgement.
  bool marked = false;           ///< One of them had met congestion.
  bool opened = false;           ///< `got` has its ring.
  bool nacked = false;           ///< The gap at `expected` has been reported.
  Ps nacked_at = 0;
  Ps notified_at = -1;           ///< The last congestion notification.
  BitWindow got;                 ///< Out of order: received beyond `expected`.
};

}  // namespace railyard::packet
