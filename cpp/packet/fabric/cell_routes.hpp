#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "packet/options.hpp"

namespace railyard::packet {

/// The switches of a scheduled fabric: leafs have hosts, elements have not. Both are numbered from 0, leafs first.
struct CellTopology {
  struct Link {
    std::uint32_t network;         ///< Its number in the network.
    std::uint32_t source, target;  ///< Switches.
  };

  /// Throws std::invalid_argument where the network is no scheduled fabric.
  explicit CellTopology(const NetworkColumns& network);

  bool is_leaf(std::uint32_t at) const { return at < leafs; }

  std::uint32_t leafs = 0;
  std::vector<std::uint32_t> node;        ///< Network node of a switch.
  std::vector<std::uint32_t> switch_of;   ///< Switch of a network node; kNoSwitch for hosts.
  std::vector<Link> links;                ///< Between switches, by target: those that end at leafs first.
  std::vector<std::uint32_t> link_of;     ///< Fabric link of a network link; kNoSwitch for those of hosts.
  std::vector<std::uint32_t> first_in;    ///< links[first_in[s] .. first_in[s + 1]) end at switch s.
  std::vector<std::uint32_t> a_host;      ///< One of a leaf's hosts.

  static constexpr std::uint32_t kNoSwitch = 0xffffffffu;
};

/// Over which links cells leave a switch for a leaf: all live ones on a shortest way, in turn, each as often as the
/// bandwidth behind it says. Which ones, is asked of the network's routes to the leaf's hosts.
class CellRoutes {
 public:
  static constexpr std::uint32_t kNoLink = 0xffffffffu;

  CellRoutes(const CellTopology& topology, const NetworkColumns& network, std::uint64_t seed);

  /// Takes notice of the links' rates, 0 for dead ones.
  void update(std::span<const double> rate_bps);

  /// The next link in turn, kNoLink where no live one leads to the leaf.
  std::uint32_t next(std::uint32_t at, std::uint32_t leaf) {
    Way& way = ways_[std::size_t{at} * leafs_ + leaf];
    if (way.width <= 1) return way.width == 0 ? kNoLink : choices_[way.first];
    const std::uint32_t link = choices_[way.first + way.turn];
    way.turn = static_cast<std::uint16_t>(way.turn + 1 == way.width ? 0 : way.turn + 1);
    return link;
  }

  /// One of the links; takes no turn.
  std::uint32_t first(std::uint32_t at, std::uint32_t leaf) const {
    const Way& way = ways_[std::size_t{at} * leafs_ + leaf];
    return way.width == 0 ? kNoLink : choices_[way.first];
  }

  /// Links whose turn comes next, as far as they stand side by side.
  struct Coming {
    const std::uint32_t* links;
    std::uint32_t count;
  };

  /// A switch's own links in turn, for a run of cells to one leaf.
  class Turn {
   public:
    Turn(const std::uint32_t* choices, std::uint32_t width, std::uint16_t& turn)
        : choices_(choices), width_(width), turn_(turn), at_(turn) {}
    ~Turn() { turn_ = static_cast<std::uint16_t>(at_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool empty() const { return width_ == 0; }
    Coming coming(std::uint32_t most) const { return {choices_ + at_, std::min(most, width_ - at_)}; }
    std::uint32_t next() {
      const std::uint32_t link = choices_[at_];
      at_ = at_ + 1 == width_ ? 0 : at_ + 1;
      return link;
    }

   private:
    const std::uint32_t* choices_;
    std::uint32_t width_;
    std::uint16_t& turn_;
    std::uint32_t at_;
  };
  Turn turns(std::uint32_t at, std::uint32_t leaf) {
    Way& way = ways_[std::size_t{at} * leafs_ + leaf];
    return {choices_.data() + way.first, way.width, way.turn};
  }

  bool reaches(std::uint32_t at, std::uint32_t leaf) const { return ways_[std::size_t{at} * leafs_ + leaf].width != 0; }

 private:
  static constexpr std::uint32_t kParts = 16;  ///< The widest link's turns in a round of unlike links.

  struct Way {
    std::uint32_t first = 0;
    std::uint16_t width = 0, turn = 0;
  };
  struct Weighted {
    std::uint32_t link;
    double bps;
  };

  double capacity(std::uint32_t at, std::uint32_t leaf, std::vector<double>& known, int depth);
  std::vector<Weighted> outgoing(std::uint32_t at, std::uint32_t leaf, std::vector<double>& known, int depth);
  std::span<const std::int32_t> links_to_host(std::uint32_t at, std::uint32_t host) const;
  void lay_out(std::uint32_t at, std::uint32_t leaf, const std::vector<Weighted>& links);
  static std::vector<std::uint32_t> round(const std::vector<Weighted>& links);

  const CellTopology& topology_;
  const NetworkColumns& network_;
  std::uint64_t seed_;
  std::uint32_t leafs_;
  std::vector<double> rate_bps_;
  std::vector<Way> ways_;  ///< By switch, then leaf.
  std::vector<std::uint32_t> choices_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> known_;  ///< Rounds already laid out.
};

}  // namespace railyard::packet
