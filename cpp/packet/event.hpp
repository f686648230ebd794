#pragma once

#include <cstdint>

namespace railyard::packet {

/// What an event's `what` says: three bits of kind, 29 of index.
enum class Event : std::uint32_t {
  arrival,  ///< Packet: at the end of its link.
  slot,     ///< Host: its interface may send again.
  start,    ///< Flow: may begin.
  timer,    ///< Flow: the transport's timer.
  pacer,    ///< The transport's own.
  port,     ///< Link: the fabric's own.
  extra,    ///< The fabric's second own.
  control,  ///< The engine's own: faults, probes.
};

inline constexpr std::uint32_t kIndexBits = 29;
inline constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;

constexpr std::uint32_t event(Event kind, std::uint32_t index) {
  return static_cast<std::uint32_t>(kind) << kIndexBits | index;
}
constexpr Event kind_of(std::uint32_t what) { return static_cast<Event>(what >> kIndexBits); }
constexpr std::uint32_t index_of(std::uint32_t what) { return what & kIndexMask; }

}  // namespace railyard::packet
