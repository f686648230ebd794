#include "rounds/fluid.hpp"

#include <algorithm>
#include <cmath>

namespace railyard::rounds {
namespace {

constexpr double kRounding = 1e-12;
constexpr std::int32_t kNone = -1;

}  // namespace

Fluid::Fluid(const TransferColumns& columns, const LinkColumns& links, const std::vector<double>& most_bps)
    : columns_(columns), transfers_(columns.bits.size()) {
  contract(links, most_bps);
  rank();
}

/// Leaves out links that are wide enough for all that could meet there, whatever comes.
void Fluid::contract(const LinkColumns& links, std::vector<double> most) {
  const std::size_t count = links.capacity_bps.size();
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

void Fluid::rank() {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < transfers_.size(); ++i)
    if (link_[i] != kNone) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto one, auto other) { return columns_.limit_bps[one] < columns_.limit_bps[other]; });
  for (const std::uint32_t i : order) transfers_[i].rank = node_of(i).ranked.append(columns_.limit_bps[i]);
  for (Node& node : nodes_) node.ranked.seal();
}

double Fluid::served(const Node& node) const {
  return node.clock + (std::isfinite(node.level) ? node.level * (now_ - node.at_s) : 0.0);
}

void Fluid::begin(std::uint32_t i) {
  Node& node = node_of(i);
  node.ranked.add(transfers_[i].rank);
  touch(i);
  const double limit = columns_.limit_bps[i];
  if (limit <= node.level)
    limit_it(i, columns_.bits[i]);
  else
    level_it(i, columns_.bits[i]);
}

void Fluid::limit_it(std::uint32_t i, double left) {
  Transfer& one = transfers_[i];
  one.state = State::limited, one.mark = now_ + left / columns_.limit_bps[i], ++one.change;
  limited_.push({one.mark, i, one.change});
  node_of(i).falling.push({-columns_.limit_bps[i], i, one.change});
}

void Fluid::level_it(std::uint32_t i, double left) {
  Transfer& one = transfers_[i];
  Node& node = node_of(i);
  one.state = State::level, one.mark = served(node) + left, ++one.change;
  node.ends.push({one.mark, i, one.change});
  node.rising.push({columns_.limit_bps[i], i, one.change});
}

/// The first entry that still holds; nullptr: none does.
const Fluid::Entry* Fluid::first(Earliest& queue) {
  while (!queue.empty() && transfers_[queue.top().transfer].change != queue.top().change) queue.pop();
  return queue.empty() ? nullptr : &queue.top();
}

double Fluid::next_end() {
  const Entry* one = first(limited_);
  double when = one == nullptr ? kNever : one->key;
  for (Node& node : nodes_)
    if (const Entry* end = first(node.ends); end != nullptr)
      when = std::min(when, std::max(node.at_s + (end->key - node.clock) / node.level, node.at_s));
  return when;
}

void Fluid::finish(std::vector<std::uint32_t>& ended) {
  const double limit = now_ + kRounding * std::max(now_, 1.0);
  for (const Entry* one = first(limited_); one != nullptr && one->key <= limit; one = first(limited_)) {
    ended.push_back(one->transfer);
    end(one->transfer);
  }
  for (Node& node : nodes_)
    for (const Entry* one = first(node.ends);
         one != nullptr && node.at_s + (one->key - node.clock) / node.level <= limit; one = first(node.ends)) {
      ended.push_back(one->transfer);
      end(one->transfer);
    }
}

void Fluid::give_up(std::uint32_t i) {
  if (transfers_[i].state == State::limited || transfers_[i].state == State::level) end(i);
}

void Fluid::end(std::uint32_t i) {
  transfers_[i].state = State::ended, ++transfers_[i].change;
  node_of(i).ranked.remove(transfers_[i].rank);
  touch(i);
}

Fluid::Demand Fluid::asked(const Node& node, double level) const {
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
double Fluid::full_level(const Node& node) const {
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
void Fluid::settle() {
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

void Fluid::set_level(Node& node, double level) {
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

}  // namespace railyard::rounds
