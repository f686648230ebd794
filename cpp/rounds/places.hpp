#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rounds/tree.hpp"

namespace railyard::rounds {

/// What clients do one after the other, a row each: hear, get, work, send.
struct ClientColumns {
  std::span<const double> delay_s;  ///< Until the download begins.
  std::span<const double> work_s;   ///< From its last shared bit to the first one sent.
  std::span<const double> lag_s;    ///< From the last shared bit sent until the update is there.
  std::span<const double> leave_s;  ///< From the start, when the client goes; inf: never.
};

/// Both ways are shared each by itself.
struct BothWays {
  TransferColumns down, up;
  LinkColumns down_links, up_links;
};

/// What became of each row; inf for what never was.
struct Visits {
  std::vector<double> begun_s, down_s, got_s, up_s, sent_s, end_s;
  std::vector<std::uint32_t> came;  ///< Rows whose update came, in that order.
  std::vector<std::uint32_t> left;  ///< Rows whose client went before, in that order.
};

/// So many places, each of which takes the next row as soon as its client's update came or the client left: transfers
/// share links with whatever else is under way at that time.
///
/// Ends with so many updates, or when rows run out (`came` is then shorter). Throws std::invalid_argument when columns
/// do not fit together.
Visits visits(const ClientColumns& clients, const BothWays& ways, std::size_t places, std::size_t updates);

}  // namespace railyard::rounds
