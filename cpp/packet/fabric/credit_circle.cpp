#include <string>
#include <unordered_set>
#include <utility>

#include "packet/fabric/link_credit.hpp"
#include "packet/frozen.hpp"
#include "packet/stuck.hpp"

namespace railyard::packet {

namespace {

/// What a lane of a link waits for: the lanes by which the packets in its buffer at the far end would leave.
class Waits {
 public:
  std::vector<std::uint32_t> dead;                       ///< Lanes that have no hope of their own.
  std::vector<std::vector<std::uint32_t>> leave_by;      ///< Of each lane (link x lanes + lane).

  /// Takes away every lane from whose buffer something can leave, until none is left that has.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      std::unordered_set<std::uint32_t> members(dead.begin(), dead.end());
      std::vector<std::uint32_t> left;
      for (const std::uint32_t lane : dead) {
        bool hope = leave_by[lane].empty();
        for (const std::uint32_t next : leave_by[lane]) hope = hope || !members.contains(next);
        if (!hope) left.push_back(lane);
      }
      changed = left.size() != dead.size();
      dead = std::move(left);
    }
  }

  /// A circle of lanes, each of which waits for the next. PRE: settled, and some are dead.
  std::vector<std::uint32_t> circle() const {
    std::vector<std::uint32_t> way;
    std::vector<std::int64_t> seen(leave_by.size(), -1);
    std::uint32_t at = dead.front();
    while (seen[at] < 0) {
      seen[at] = static_cast<std::int64_t>(way.size());
      way.push_back(at);
      at = leave_by[at].front();
    }
    return {way.begin() + seen[at], way.end()};
  }
};

}  // namespace

/// From time to time while a lane lacks credit.
void CreditFabric::watch() {
  watching_ = false;
  bool stuck = false, long_stuck = false;
  for (std::uint32_t link = 0; link < ports_.size(); ++link)
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      if ((ports_[link].stuck >> lane & 1) == 0) continue;
      stuck = true;
      long_stuck = long_stuck || stuck_since_[input(link, lane)] + options_.watch_ps <= context_.now;
    }
  if (long_stuck) look_for_circle();
  const bool moved = std::exchange(begun_before_, begun_) != begun_;
  still_ = moved ? 0 : still_ + 1;
  // WHY not for ever: what waits where nothing moves waits for a link that is down, and must not keep the run alive.
  if (!stuck || still_ > kStill) return;
  if (still_ == kStill && context_.exchange != nullptr) throw Frozen("nothing moves in a part of the network");
  watching_ = true;
  context_.wheel.push(context_.now + options_.watch_ps, event(Event::extra, static_cast<std::uint32_t>(inputs_.size())));
}

/// Throws Stuck where lanes wait for each other's buffers and nothing that could help is on its way.
void CreditFabric::look_for_circle() const {
  Waits waits;
  waits.leave_by.resize(inputs_.size());
  for (std::uint32_t link = 0; link < ports_.size(); ++link) {
    const CreditPort& port = ports_[link];
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      if ((port.waiting >> lane & 1) == 0) continue;
      const CreditLane& at = lane_at(port, link, lane);
      for (std::uint32_t head = at.first; head != kNone; head = context_.slab[head].following) {
        const std::uint32_t ingress = context_.slab[head].ingress;
        if (ingress != kNone) waits.leave_by[input(ingress, lane)].push_back(input(link, lane));
      }
      const CreditInput& in = inputs_[input(link, lane)];
      const bool coming = in.granted != at.credit || in.freed + in.later != 0;
      const bool enough = at.credit >= blocks(context_.slab[at.first].size);
      if (!coming && !enough && !port.down && ends_[link].target >= context_.hosts)
        waits.dead.push_back(input(link, lane));
    }
  }
  waits.settle();
  if (waits.dead.empty()) return;
  std::string message = "credit deadlock: each of these links waits for space in the buffer at the end of the next:";
  for (const std::uint32_t at : waits.circle()) {
    const std::uint32_t link = at / lanes_;
    message += " link " + std::to_string(link) + " (node " + std::to_string(ends_[reverse_[link]].target) + " to node " +
               std::to_string(ends_[link].target) + (lanes_ > 1 ? ", lane " + std::to_string(at % lanes_) : "") + ");";
  }
  message.back() = '.';
  throw Stuck(message);
}

}  // namespace railyard::packet
