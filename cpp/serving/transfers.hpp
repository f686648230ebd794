// Flows of keys and values over links that they share. Private to the core.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/time.hpp"
#include "flow/sharing.hpp"
#include "serving/deployment.hpp"

namespace railyard::serving {

inline constexpr std::uint32_t kNoFlow = UINT32_MAX;
inline constexpr std::uint32_t kNoWay = UINT32_MAX;

/// What a flow carries, which says whose number its owner is.
enum class Cargo : std::uint8_t { background, request, own, weights, written };

/// Weighted max-min sharing of links by transfers and other traffic: Sharing, with the progress of each flow.
class Transfers {
 public:
  struct Arrival {
    std::uint32_t flow, stamp;
    Ps due;
  };

  explicit Transfers(const Deployment& deployment);

  /// Where a pair has several ways, transfers take them by turns.
  std::uint32_t way(std::int32_t from, std::int32_t to, std::uint32_t turn = 0) const;
  Ps latency(std::uint32_t way) const { return latency_[way]; }
  std::uint32_t background(std::uint32_t row) const { return ways_ + row; }

  /// `volume_bytes` may be infinite. `cargo` and `owner` are given back.
  std::uint32_t open(std::uint32_t way, double volume_bytes, Cargo cargo, std::uint32_t owner, Ps now);
  void add(std::uint32_t flow, double volume_bytes, Ps now);
  void close(std::uint32_t flow, Ps now);
  /// Whether this event is the end of the flow; when it was slowed down, another event will come.
  bool ended(std::uint32_t flow, std::uint32_t stamp, Ps now);
  std::uint32_t way_of(std::uint32_t flow) const { return motions_[flow].entity; }
  std::uint32_t owner(std::uint32_t flow) const { return motions_[flow].owner; }
  Cargo cargo(std::uint32_t flow) const { return motions_[flow].cargo; }

  /// Whether a replica's own collectives load links.
  bool has_own(std::uint32_t replica) const { return replica < own_.size() && own_[replica].entity != kNoWay; }
  /// What they ask for in the mean from now on; 0: nothing.
  void demand(std::uint32_t replica, double bps, Ps now);
  /// The rate that they have while they send, beside the flows under way. Rates must be settled.
  double own_rate(std::uint32_t replica) const { return sharing_->free_rate(own_[replica].entity, own_[replica].flow); }
  double own_alone_rate(std::uint32_t replica) const { return sharing_->alone_rate(own_[replica].entity); }
  /// Replicas beside whose collectives something else has changed, each once.
  std::vector<std::uint32_t>& disturbed() { return disturbed_; }
  void clear_disturbed();

  /// New rates for all that has changed; afterwards arrivals() are events that must be.
  void settle(Ps now);
  std::vector<Arrival>& arrivals() { return arrivals_; }
  bool any() const { return sharing_ != nullptr; }
  std::vector<double> link_bytes(Ps now);
  /// Until so many bytes would be there, at the rate that the flows under way leave to one more.
  Ps time_to_move(std::uint32_t way, double volume_bytes, Ps now);

 private:
  struct Motion {
    double bits = 0;
    double rate = 0;  ///< Since `updated`.
    Ps updated = 0;
    Ps due = kNever;       ///< At its present rate.
    Ps event_at = kNever;  ///< Of its earliest event, never later than `due`.
    std::uint32_t entity = 0, owner = 0, stamp = 0;
    Cargo cargo = Cargo::background;
    bool open = false;
  };
  void append(std::int64_t begin, std::int64_t end, const std::vector<std::int32_t>& link,
              const std::vector<double>& share, double cap, double weight);
  void move(std::uint32_t flow, Ps now);
  void plan(std::uint32_t flow, Ps now);
  void append_own(const LinkSpec& links);
  void disturb(std::uint32_t entity);

  /// The collectives of a replica.
  struct Own {
    std::uint32_t entity = kNoWay, flow = kNoFlow;
    double bps = 0;
    bool disturbed = false;
  };
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> way_;  ///< Looked up, never walked.
  std::vector<std::int64_t> ptr_{0}, latency_, zero_;
  std::vector<std::int32_t> link_;
  std::vector<double> share_, volume_, cap_, weight_, capacity_, link_bytes_;
  std::uint32_t ways_ = 0;
  std::unique_ptr<Sharing> sharing_;
  std::vector<Motion> motions_;
  std::vector<std::uint32_t> changed_;
  std::vector<Own> own_;
  std::vector<std::vector<std::uint32_t>> own_on_;  ///< By link: replicas whose collectives use it; empty when none does.
  std::vector<std::uint32_t> disturbed_;
  std::vector<Arrival> arrivals_;
};

}  // namespace railyard::serving
