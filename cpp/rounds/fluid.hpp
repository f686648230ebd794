#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "rounds/ranked.hpp"
#include "rounds/tree.hpp"

namespace railyard::rounds {

/// Transfers over trees of shared links, max-min fair as a fluid, by whoever says when they begin.
///
/// Time moves by `move_to`, never past `next_end`; what begins, ends and is given up at that time follows, then `settle`.
class Fluid {
 public:
  /// `most_bps`: of each link, no less than the limits of all that may ever meet it first at a time.
  Fluid(const TransferColumns& columns, const LinkColumns& links, const std::vector<double>& most_bps);

  /// Whether a transfer meets a link that may be short; others end after their bits at their limit.
  bool shares(std::uint32_t transfer) const { return link_[transfer] >= 0; }
  void move_to(double now) { now_ = now; }
  void begin(std::uint32_t transfer);
  void give_up(std::uint32_t transfer);
  /// When the next transfer ends, if nothing else begins; inf: none is under way.
  double next_end();
  /// Ends what ends now; `ended` gets them.
  void finish(std::vector<std::uint32_t>& ended);
  /// New levels after what was touched.
  void settle();

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// A transfer with the number of its last change: older entries of a queue are passed over.
  struct Entry {
    double key;
    std::uint32_t transfer, change;
    bool operator>(const Entry& other) const { return key > other.key; }
  };
  using Earliest = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  enum class State : std::uint8_t { away, limited, level, ended };

  struct Transfer {
    double mark = 0;  ///< Limited: when it ends. Level: the link's clock when it ends.
    std::uint32_t change = 0;
    std::uint32_t rank = 0;  ///< Among those of its link, by limit.
    State state = State::away;
  };

  /// A link that may be short, and the transfers that meet the tree there.
  struct Node {
    double capacity = 0;
    std::int32_t parent = -1;
    std::vector<std::int32_t> children;
    Ranked ranked;          ///< Active transfers by their limits.
    double full = kNever;   ///< The level at which its transfers share it; inf: they fit.
    double level = kNever;  ///< The least of `full` here and further on.
    double clock = 0;       ///< Bits that each transfer at the level got.
    double at_s = 0;        ///< When the clock was set.
    Earliest ends;          ///< Of transfers at the level, by the clock.
    Earliest rising;        ///< The same by limit: the first that the level reaches.
    Earliest falling;       ///< Limited ones by limit, largest first (negative keys).
  };

  /// What transfers below a link ask for at a level, and how fast that grows with it.
  struct Demand {
    double bps = 0, slope = 0;
  };

  void contract(const LinkColumns& links, std::vector<double> most);
  void rank();
  Node& node_of(std::uint32_t transfer) { return nodes_[static_cast<std::size_t>(link_[transfer])]; }
  double served(const Node& node) const;
  void touch(std::uint32_t transfer) { touched_[static_cast<std::size_t>(link_[transfer])] = true; }
  void limit_it(std::uint32_t transfer, double left);
  void level_it(std::uint32_t transfer, double left);
  const Entry* first(Earliest& queue);
  void end(std::uint32_t transfer);
  Demand asked(const Node& node, double level) const;
  double full_level(const Node& node) const;
  void set_level(Node& node, double level);

  TransferColumns columns_;
  std::vector<Transfer> transfers_;
  std::vector<std::int32_t> link_;  ///< Of each transfer: its node.
  std::vector<Node> nodes_;         ///< Parents before children.
  std::vector<char> touched_;
  Earliest limited_;
  double now_ = 0;
};

}  // namespace railyard::rounds
