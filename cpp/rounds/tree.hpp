#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace railyard::rounds {

/// Transfers, a row each; all go from a client up to the root of its tree, or
/// down the same way.
struct TransferColumns {
  std::span<const double> bits;
  std::span<const double> limit_bps;   ///< Of the client's link; more than zero.
  std::span<const std::int32_t> link;  ///< The first shared link on its way; -1: none is.
};

/// Links that several clients share: trees, parents before children.
struct LinkColumns {
  std::span<const double> capacity_bps;
  std::span<const std::int32_t> parent;  ///< The next one on the way; -1: the last.
};

/// Throws std::invalid_argument when the columns do not fit together.
void check_columns(const TransferColumns& transfers, const LinkColumns& links);

/// When each transfer ends, as a fluid that is shared max-min fairly at every
/// link, exactly; inf for one that never starts (at inf), or is given up before
/// (at `stop_s`).
///
/// On a tree the max-min rate of a transfer is the least of its limit and the
/// levels of the links on its way; a link's level is what its own transfers
/// would share it at, or its parent's where that is less. So an event moves
/// levels along one way to a root. Transfers above their level have one clock a
/// link (bits served to each of them), those below it end when they end alone:
/// an event costs the logarithm of the transfers and not their number. Throws
/// std::invalid_argument when the columns do not fit together.
std::vector<double> shared_ends(const TransferColumns& transfers, std::span<const double> start_s,
                                std::span<const double> stop_s, const LinkColumns& links);

}  // namespace railyard::rounds
