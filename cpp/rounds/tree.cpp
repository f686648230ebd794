#include "rounds/tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <stdexcept>

#include "rounds/ranked.hpp"

namespace railyard::rounds {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;
constexpr std::int32_t kNone = -1;

/// A transfer with the number of its last change: older entries of a queue are
/// passed over.
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
  std::int32_t parent = kNone;
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

/// What transfers below a link ask for at a level, and how fast that grows with
/// it.
struct Demand {
  double bps = 0, slope = 0;
};

class Fluid {
 public:
  Fluid(const TransferColumns& columns, const LinkColumns& links) : columns_(columns), transfers_(columns.bits.size()) {
    contract(links);
    rank();
  }

  std::vector<double> run() {
    std::vector<std::uint32_t> order;
    ends_.assign(transfers_.size(), kNever);
    for (std::uint32_t i = 0; i < transfers_.size(); ++i) {
      if (!std::isfinite(columns_.start_s[i])) continue;
      if (link_[i] == kNone || columns_.bits[i] <= 0)
        ends_[i] = columns_.start_s[i] + columns_.bits[i] / columns_.limit_bps[i];
      else
        order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto one, auto other) { return columns_.start_s[one] < columns_.start_s[other]; });
    std::size_t next = 0, active = 0;
    while (next < order.size() || active > 0) {
      const double starts = next < order.size() ? columns_.start_s[order[next]] : kNever;
      now_ = std::min(starts, next_end());
      for (; next < order.size() && columns_.start_s[order[next]] <= now_; ++next, ++active) begin(order[next]);
      active -= finish();
      settle();
    }
    return std::move(ends_);
  }

 private:
  /// Leaves out links that are wide enough for all that could meet there,
  /// whatever comes.
  void contract(const LinkColumns& links) {
    const std::size_t count = links.capacity_bps.size();
    std::vector<double> most(count, 0.0);
    for (std::size_t i = 0; i < transfers_.size(); ++i)
      if (columns_.link[i] != kNone && std::isfinite(columns_.start_s[i]))
        most[static_cast<std::size_t>(columns_.link[i])] += columns_.limit_bps[i];
    for (std::size_t link = count; link-- > 0;)
      if (links.parent[link] != kNone)
        most[static_cast<std::size_t>(links.parent[link])] += std::min(most[link], links.capacity_bps[link]);
    std::vector<std::int32_t> kept(count, kNone);
    for (std::size_t link = 0; link < count; ++link) {
      const std::int32_t on = links.parent[link] == kNone ? kNone : kept[static_cast<std::size_t>(links.parent[link])];
      if (most[link] <= links.capacity_bps[link]) {
        kept[link] = on;
        continue;
      }
      kept[link] = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_.back().capacity = links.capacity_bps[link];
      nodes_.back().parent = on;
      if (on != kNone) nodes_[static_cast<std::size_t>(on)].children.push_back(kept[link]);
    }
    link_.resize(transfers_.size());
    for (std::size_t i = 0; i < transfers_.size(); ++i)
      link_[i] = columns_.link[i] == kNone ? kNone : kept[static_cast<std::size_t>(columns_.link[i])];
    touched_.assign(nodes_.size(), false);
  }

  void rank() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < transfers_.size(); ++i)
      if (link_[i] != kNone) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto one, auto other) { return columns_.limit_bps[one] < columns_.limit_bps[other]; });
    for (const std::uint32_t i : order) transfers_[i].rank = node_of(i).ranked.append(columns_.limit_bps[i]);
    for (Node& node : nodes_) node.ranked.seal();
  }

  Node& node_of(std::uint32_t transfer) { return nodes_[static_cast<std::size_t>(link_[transfer])]; }

  double served(const Node& node) const {
    return node.clock + (std::isfinite(node.level) ? node.level * (now_ - node.at_s) : 0.0);
  }

  void begin(std::uint32_t i) {
    Node& node = node_of(i);
    node.ranked.add(transfers_[i].rank);
    touch(i);
    const double limit = columns_.limit_bps[i];
    if (limit <= node.level)
      limit_it(i, columns_.bits[i]);
    else
      level_it(i, columns_.bits[i]);
  }

  void touch(std::uint32_t i) { touched_[static_cast<std::size_t>(link_[i])] = true; }

  void limit_it(std::uint32_t i, double left) {
    Transfer& one = transfers_[i];
    one.state = State::limited, one.mark = now_ + left / columns_.limit_bps[i], ++one.change;
    limited_.push({one.mark, i, one.change});
    node_of(i).falling.push({-columns_.limit_bps[i], i, one.change});
  }

  void level_it(std::uint32_t i, double left) {
    Transfer& one = transfers_[i];
    Node& node = node_of(i);
    one.state = State::level, one.mark = served(node) + left, ++one.change;
    node.ends.push({one.mark, i, one.change});
    node.rising.push({columns_.limit_bps[i], i, one.change});
  }

  /// The first entry that still holds; nullptr: none does.
  const Entry* first(Earliest& queue) {
    while (!queue.empty() && transfers_[queue.top().transfer].change != queue.top().change) queue.pop();
    return queue.empty() ? nullptr : &queue.top();
  }

  double next_end() {
    const Entry* one = first(limited_);
    double when = one == nullptr ? kNever : one->key;
    for (Node& node : nodes_)
      if (const Entry* end = first(node.ends); end != nullptr)
        when = std::min(when, std::max(node.at_s + (end->key - node.clock) / node.level, node.at_s));
    return when;
  }

  /// Ends what ends now; how many did.
  std::size_t finish() {
    std::size_t count = 0;
    const double limit = now_ + kRounding * std::max(now_, 1.0);
    for (const Entry* one = first(limited_); one != nullptr && one->key <= limit; one = first(limited_), ++count)
      end(one->transfer);
    for (Node& node : nodes_)
      for (const Entry* one = first(node.ends);
           one != nullptr && node.at_s + (one->key - node.clock) / node.level <= limit; one = first(node.ends), ++count)
        end(one->transfer);
    return count;
  }

  void end(std::uint32_t i) {
    ends_[i] = now_;
    transfers_[i].state = State::ended, ++transfers_[i].change;
    node_of(i).ranked.remove(transfers_[i].rank);
    touch(i);
  }

  Demand asked(const Node& node, double level) const {
    Demand sum{node.ranked.sum(), 0.0};
    if (std::isfinite(level)) {
      const double above = node.ranked.above(level);
      sum = {node.ranked.below(level) + level * above, above};
    }
    for (const std::int32_t child : node.children) {
      const Node& below = nodes_[static_cast<std::size_t>(child)];
      const Demand one = asked(below, level);
      if (one.bps >= below.capacity)
        sum.bps += below.capacity;
      else
        sum.bps += one.bps, sum.slope += one.slope;
    }
    return sum;
  }

  /// The level at which all that is asked fills the link. WHY Newton: what is
  /// asked is concave and piecewise linear in the level, so that steps from
  /// below never pass the answer and end in it.
  double full_level(const Node& node) const {
    if (asked(node, kNever).bps <= node.capacity * (1.0 + kRounding)) return kNever;
    if (node.children.empty()) return node.ranked.level(node.capacity);
    double level = 0.0;
    for (int tries = 0; tries < 200; ++tries) {
      const Demand at = asked(node, level);
      const double step = (node.capacity - at.bps) / at.slope;
      if (at.slope <= 0 || step <= level * kRounding) break;
      level += step;
    }
    return level;
  }

  /// New levels after what was touched, parents first, and who is limited by
  /// its own link under them.
  void settle() {
    for (std::size_t link = nodes_.size(); link-- > 0;) {
      if (!touched_[link]) continue;
      if (nodes_[link].parent != kNone) touched_[static_cast<std::size_t>(nodes_[link].parent)] = true;
      nodes_[link].full = full_level(nodes_[link]);
      touched_[link] = false;
    }
    for (Node& node : nodes_) {
      const double above = node.parent == kNone ? kNever : nodes_[static_cast<std::size_t>(node.parent)].level;
      set_level(node, std::min(node.full, above));
    }
  }

  void set_level(Node& node, double level) {
    node.clock = served(node), node.at_s = now_;
    if (level == node.level) return;
    node.level = level;
    // WHY at now_: clocks were set, so that what is left is exact under the old
    // level and the new one begins here.
    for (const Entry* one = first(node.rising); one != nullptr && one->key <= level; one = first(node.rising))
      limit_it(one->transfer, transfers_[one->transfer].mark - node.clock);
    for (const Entry* one = first(node.falling); one != nullptr && -one->key > level; one = first(node.falling)) {
      const std::uint32_t i = one->transfer;
      level_it(i, std::max(transfers_[i].mark - now_, 0.0) * columns_.limit_bps[i]);
    }
  }

  TransferColumns columns_;
  std::vector<Transfer> transfers_;
  std::vector<std::int32_t> link_;  ///< Of each transfer: its node.
  std::vector<Node> nodes_;         ///< Parents before children.
  std::vector<char> touched_;
  Earliest limited_;
  std::vector<double> ends_;
  double now_ = 0;
};

void check(const TransferColumns& transfers, const LinkColumns& links) {
  const std::size_t count = transfers.bits.size(), many = links.capacity_bps.size();
  if (transfers.start_s.size() != count || transfers.limit_bps.size() != count || transfers.link.size() != count)
    throw std::invalid_argument("columns of transfers differ in length");
  if (links.parent.size() != many) throw std::invalid_argument("columns of links differ in length");
  for (const std::int32_t link : transfers.link)
    if (link < kNone || link >= static_cast<std::int64_t>(many))
      throw std::invalid_argument("a transfer names no link");
  for (std::size_t link = 0; link < many; ++link) {
    if (!(links.capacity_bps[link] > 0)) throw std::invalid_argument("a link has no rate");
    if (links.parent[link] < kNone || links.parent[link] >= static_cast<std::int64_t>(link))
      throw std::invalid_argument("a link comes before its parent");
  }
  for (const double limit : transfers.limit_bps)
    if (!(limit > 0)) throw std::invalid_argument("a transfer has no rate");
}

}  // namespace

std::vector<double> shared_ends(const TransferColumns& transfers, const LinkColumns& links) {
  check(transfers, links);
  return Fluid(transfers, links).run();
}

}  // namespace railyard::rounds
