#pragma once

#include <cstdint>
#include <vector>

#include "packet/options.hpp"
#include "packet/slab.hpp"
#include "packet/telemetry.hpp"

namespace railyard::packet {

/// A network cut into parts that run side by side: neighbouring hosts with their switches, the uppermost switches dealt out
/// in turn.
struct Partition {
  unsigned parts = 1;
  std::vector<std::uint8_t> part_of;  ///< Of each node.
  Ps lookahead = kNever;              ///< The least delay of a link between parts.

  /// PRE: parts in [1, 255].
  static Partition cut(const NetworkColumns& network, unsigned parts);

  /// Whether what a flow waits for always ends in the part in which the flow begins: then no part must know at once what
  /// happens in another.
  bool separates(const TrafficColumns& traffic) const;
};

/// Whether what a flow waits for always ends at the host at which the flow begins.
bool host_by_host(const TrafficColumns& traffic);

/// What one part sends to the others while a window of time is worked off.
class Exchange {
 public:
  struct Parcel {
    Ps time;
    std::uint32_t link;
    Packet packet;
  };

  Exchange(const Partition& partition, const NetworkColumns& network, unsigned part)
      : partition_(partition), network_(network), part_(part), parcels_(partition.parts), telemetry_(partition.parts) {}

  unsigned part() const { return part_; }
  bool owns(std::uint32_t node) const { return partition_.part_of[node] == part_; }
  bool leaves(std::uint32_t link) const { return !owns(target(link)); }

  void send(std::uint32_t link, Ps time, const Packet& packet, const Telemetry* telemetry) {
    const unsigned to = partition_.part_of[target(link)];
    parcels_[to].push_back({time, link, packet});
    if (telemetry != nullptr) telemetry_[to].push_back(*telemetry);
  }

  /// What has been sent to a part; the part clears it.
  std::vector<Parcel>& parcels(unsigned part) { return parcels_[part]; }
  std::vector<Telemetry>& telemetry(unsigned part) { return telemetry_[part]; }

 private:
  std::uint32_t target(std::uint32_t link) const { return static_cast<std::uint32_t>(network_.link_target[link]); }

  const Partition& partition_;
  const NetworkColumns& network_;
  unsigned part_;
  std::vector<std::vector<Parcel>> parcels_;
  std::vector<std::vector<Telemetry>> telemetry_;
};

}  // namespace railyard::packet
