#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/time.hpp"
#include "packet/slab.hpp"

namespace railyard::packet {

using Words = std::vector<std::int64_t>;

/// An end of a flow in an episode, at its sender (0) or its receiver (1).
struct Ending {
  Ps after;             ///< Since the episode began.
  std::uint32_t input;  ///< Which of its flows, in the order in which they began.
  std::uint8_t at;

  bool operator==(const Ending&) const = default;
};

/// Delays that the acknowledgements of a connection told of, in order: the mean before makes with them the mean after.
struct Delays {
  std::vector<double> samples;
  Ps mean = -1;  ///< After them, where it is the same whatever it was before; then there are none.

  bool operator==(const Delays&) const = default;
};

/// What an episode leaves behind, by the parts and connections in the order in which it came to them.
struct Left {
  std::vector<Words> hosts;        ///< One a part; empty for links.
  std::vector<Words> connections;
  std::vector<Delays> delays;      ///< One a connection.
  std::vector<std::int64_t> carried;  ///< Bytes, one a part; 0 for hosts.
  std::uint64_t sent = 0, acks = 0, hops = 0;
};

/// What is known of an episode up to the flow that began last: a node of a tree, whose branches are the next flow to begin.
struct Node {
  std::map<Words, std::uint32_t> branches;
  std::vector<Ending> endings;  ///< After the flow that began last and before the next.
  Ps known = 0;                 ///< Up to when `endings` is complete, since the episode began.
  bool ended = false;           ///< Nothing follows `endings`, and `left` is known.
  bool random = false;          ///< What follows depends on random numbers.
  Left left;
  std::uint32_t leader = kNone;            ///< The episode that is here as packets.
  std::vector<std::uint32_t> followers;    ///< Episodes that wait for what the leader learns.
};

}  // namespace railyard::packet
