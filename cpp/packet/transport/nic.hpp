#pragma once

#include <cstdint>

#include "packet/slab.hpp"

namespace railyard::packet {

/// A host's network interface: one packet at a time, flows in turn, control packets ten to one before them.
struct Nic {
  static constexpr std::uint8_t kTurns = 11;
  Ps busy_until = 0;
  Ps others = 0;  ///< What packets of flows with all of the rate took while those with a share of it waited.
  std::uint32_t first = kNone, last = kNone;                  ///< Flows that want to send.
  std::uint32_t control_first = kNone, control_last = kNone;  ///< Control packets.
  std::uint32_t active = 0;                                   ///< Flows that want to send, how many.
  std::uint32_t link = kNone;  ///< Its only link, where it has one.
  std::uint16_t links = 0;
  std::uint8_t turn = 0;
  bool slot = false;  ///< A slot event is pending.
};

/// A flow's place in the round of its interface.
struct Place {
  std::uint32_t next = kNone;
  bool taken = false;
};

}  // namespace railyard::packet
