#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flow/columns.hpp"

namespace railyard {

/// Links on which flows could ever meet, one flag a link.
///
/// Tasks of one (rank, stream), and of one (communicator, stream), run one after another, so of all that they put on a
/// link only the largest counts at any moment. Where the sum of those over all streams that use a link is within its
/// capacity, nobody can ever be held back there, and the engine need not look at the link at all: a server's scale-up
/// links, for instance, when only tensor parallelism uses them.
std::vector<std::uint8_t> crowded_links(const GraphColumns& graph, const EntityColumns& entities,
                                        std::span<const double> capacity_bps, const FaultColumns& faults);

/// The rate of an entity with the network to itself, in bits of volume per second.
double alone_rate(const EntityColumns& entities, std::uint32_t entity, std::span<const double> capacity_bps);

}  // namespace railyard
