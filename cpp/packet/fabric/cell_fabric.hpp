#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "packet/fabric/cell_routes.hpp"
#include "packet/fabric/cells.hpp"
#include "packet/fabric/port.hpp"

namespace railyard::packet {

/// Sizes of cells and rates of the links between switches.
struct CellSizes {
  std::uint32_t payload, header, control;  ///< Bytes.
  double speedup;                          ///< Of the links between switches over what the network says.
};

/// The links and elements between leafs: cells go to each live link in turn and wait in first-in-first-out queues.
///
/// Cells are no events. A link keeps the cells in flight in a ring; once in a window, which is no longer than any link
/// holds a cell, each element takes all that have arrived, in the order of time (of equal times the lower link first), and
/// computes when they leave. Whatever they bring about happens later than the window, so nothing is computed too late or in
/// a wrong order, whatever the window.
/// `Sink` learns of cells at their leaf: data_cell(cell), control_cell(cell), lost(cell); cell.time may lie ahead.
/// prefetch(cell): one of these will be called soon.
template <class Sink>
class CellFabric {
 public:
  CellFabric(const NetworkColumns& network, const CellTopology& topology, CellRoutes& routes, const CellSizes& sizes,
             Sink& sink)
      : topology_(topology), routes_(routes), sizes_(sizes), sink_(sink), links_(topology.links.size()),
        speed_(topology.links.size()), rate_(topology.links.size()),
        full_(sizes.payload + sizes.header) {
    for (std::size_t at = 0; at < links_.size(); ++at) {
      const std::uint32_t link = topology.links[at].network;
      links_[at].latency = network.latency_ps[link];
      links_[at].target = topology.links[at].target;
      rate_[at] = static_cast<double>(network.rate_bps[link]) * sizes.speedup;
      set_speed(static_cast<std::uint32_t>(at), rate_[at]);
    }
    window_ = kLongestWindow;
    const std::uint32_t least = std::min(sizes.header + 1, sizes.control);
    for (std::uint32_t at = topology.first_in[topology.leafs]; at < links_.size(); ++at)
      window_ = std::min(window_, links_[at].latency + wire_time(least, speed_[at]));
    for (std::uint32_t at = 0; at < topology.leafs; ++at)
      for (std::uint32_t link = topology.first_in[at]; link < topology.first_in[at + 1]; ++link)
        window_ = std::min(window_, links_[link].latency + wire_time(least, speed_[link]));
    routes_.update(rate_);
  }

  /// Cuts `bytes` into cells and sends them off from a leaf; how many.
  std::uint32_t send(std::uint32_t from, std::uint32_t to, std::uint32_t burst, std::uint32_t bytes, Ps now) {
    CellRoutes::Turn turn = routes_.turns(from, to);
    fetch(turn, cells_for(bytes));
    Cell cell{now, burst, static_cast<std::uint16_t>(to), static_cast<std::uint16_t>(full_)};
    std::uint32_t number = 0, left = bytes;
    for (; left > sizes_.payload; left -= sizes_.payload, ++number) send_one(turn, cell, number);
    cell.bytes = static_cast<std::uint16_t>(left + sizes_.header);
    send_one(turn, cell, number);
    return number + 1;
  }

  void send_control(std::uint32_t from, std::uint32_t to, std::uint32_t what, Ps now) {
    const auto bytes = static_cast<std::uint16_t>(sizes_.control | Cell::kControlCell);
    transmit(routes_.next(from, to), {now, what, static_cast<std::uint16_t>(to), bytes});
  }

  /// When the cells in flight must next be looked at; kNever when there are none.
  Ps due() const { return due_; }

  /// Takes what has arrived at the elements before `now`. PRE: now == due().
  void sweep(Ps now) {
    due_ = kNever;
    for (std::uint32_t element = topology_.leafs; element < topology_.node.size(); ++element) gather(element, now);
  }

  std::uint32_t cells_for(std::uint32_t bytes) const { return (bytes + sizes_.payload - 1) / sizes_.payload; }

  /// The rate of a link changes now; 0: what is sent over it is lost. Routes learn of it by `reroute`.
  void set_rate(std::uint32_t link, double bps) {
    rate_[link] = bps;
    if (bps > 0) set_speed(link, bps);
    links_[link].live = bps > 0;
  }
  void reroute() { routes_.update(rate_); }

  /// Time of a full cell from leaf to leaf when nothing is in its way.
  Ps crossing(std::uint32_t from, std::uint32_t to) const {
    Ps time = 0;
    for (std::uint32_t at = from; at != to;) {
      const std::uint32_t link = routes_.first(at, to);
      if (link == CellRoutes::kNoLink) return 0;
      time += links_[link].full_time + links_[link].latency;
      at = links_[link].target;
    }
    return time;
  }

  double rate(std::uint32_t link) const { return rate_[link]; }
  std::int64_t carried(std::uint32_t link) const { return links_[link].carried; }
  Ps longest_wait(std::uint32_t link) const { return links_[link].longest_wait; }
  Ps waited() const { return waited_; }
  std::uint64_t cells() const { return cells_; }
  std::uint64_t lost() const { return lost_; }
  Ps window() const { return window_; }

  /// Bytes that wait for a link, by what the last window brought.
  std::int64_t depth(std::uint32_t link, Ps now) const {
    const Link& at = links_[link];
    return at.busy_until <= now ? 0 : static_cast<std::int64_t>(static_cast<double>(at.busy_until - now) * rate_[link] / 8e12);
  }

 private:
  static constexpr Ps kLongestWindow = 500'000;  ///< More cells at a time would not stay in the first cache.
  static constexpr std::uint32_t kFew = 24;
  static constexpr std::uint32_t kAheadQueue = 3, kAheadCell = 8, kAheadLinks = 32;
  static constexpr std::size_t kMostBins = 2048;

  /// WHY a line with the queue: a leaf sends to many links a cell each, and every line is fetched anew.
  struct alignas(64) Link {
    Ps busy_until = 0, latency = 0;
    std::int64_t carried = 0;
    std::uint32_t longest_wait = 0;  ///< At most 4 ms.
    std::uint32_t full_time = 0;
    std::uint32_t target = 0;
    bool live = true;
    CellQueue queue;
  };
  static_assert(sizeof(Link) == 64);

  void set_speed(std::uint32_t link, double bps) {
    speed_[link] = std::max<std::uint64_t>(static_cast<std::uint64_t>(bps), 1);
    links_[link].full_time = static_cast<std::uint32_t>(std::min<Ps>(wire_time(full_, speed_[link]), 0xffffffffu));
  }

  /// Fetches where the cells of a burst will be put down.
  void fetch(const CellRoutes::Turn& turn, std::uint32_t cells) const {
    const CellRoutes::Coming coming = turn.coming(std::min(cells, kAheadLinks));
    for (std::uint32_t at = 0; at < coming.count; ++at) links_[coming.links[at]].queue.prefetch_end();
  }

  void send_one(CellRoutes::Turn& turn, Cell& cell, std::uint32_t number) {
    const std::uint32_t burst = cell.what;
    cell.what = std::min(number, Cell::kMostNumber) << Cell::kBurstBits | burst;
    transmit(turn.empty() ? CellRoutes::kNoLink : turn.next(), cell);
    cell.what = burst;
  }

  void transmit(std::uint32_t at, Cell cell) {
    if (at == CellRoutes::kNoLink || !links_[at].live) {
      ++lost_;
      sink_.lost(cell);
      return;
    }
    Link& link = links_[at];
    const std::uint32_t bytes = cell.size();
    const Ps wait = std::max<Ps>(link.busy_until - cell.time, 0);
    if (wait > link.longest_wait) link.longest_wait = static_cast<std::uint32_t>(std::min<Ps>(wait, 0xffffffffu));
    waited_ += wait;
    link.carried += bytes;
    ++cells_;
    link.busy_until = cell.time + wait + (bytes == full_ ? link.full_time : wire_time(bytes, speed_[at]));
    cell.time = link.busy_until + link.latency;
    if (!topology_.is_leaf(link.target)) {
      link.queue.push(cell);
      expect(cell.time);
    } else if (cell.control()) {
      sink_.control_cell(cell);
    } else {
      sink_.data_cell(cell);
    }
  }

  void expect(Ps time) {
    if (time < due_) due_ = (time / window_ + 1) * window_;
  }

  /// What has arrived at an element, in order, goes on.
  void gather(std::uint32_t element, Ps now) {
    batch_.clear();
    for (std::uint32_t link = topology_.first_in[element]; link < topology_.first_in[element + 1]; ++link) {
      if (link + kAheadQueue < links_.size()) links_[link + kAheadQueue].queue.prefetch();
      CellQueue& queue = links_[link].queue;
      while (!queue.empty() && queue.front().time < now) {
        batch_.push_back(queue.front());
        queue.pop();
      }
      if (!queue.empty()) expect(queue.front().time);
    }
    if (batch_.empty()) return;
    order(now);
    const std::size_t count = batch_.size();
    for (std::size_t at = 0; at < count; ++at) {
      if (at + kAheadCell < count) sink_.prefetch(batch_[at + kAheadCell]);
      transmit(routes_.next(element, batch_[at].leaf), batch_[at]);
    }
  }

  /// Sorts the batch by time; equal ones stay in their order.
  void order(Ps now) {
    const std::size_t count = batch_.size();
    if (count > kFew) scatter(now);
    for (std::size_t at = 1; at < count; ++at) {
      const Cell cell = batch_[at];
      std::size_t to = at;
      for (; to > 0 && cell.time < batch_[to - 1].time; --to) batch_[to] = batch_[to - 1];
      batch_[to] = cell;
    }
  }

  void scatter(Ps now) {
    const std::size_t count = batch_.size();
    const std::size_t bins = std::min(std::bit_ceil(count), kMostBins);
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(window_))) - static_cast<int>(std::bit_width(bins)) + 1);
    const Ps begin = now - window_;
    starts_.assign(bins + 1, 0);
    const auto bin = [&](const Cell& cell) {
      return std::min(static_cast<std::size_t>((cell.time - begin) >> shift), bins - 1);
    };
    for (const Cell& cell : batch_) ++starts_[bin(cell) + 1];
    for (std::size_t at = 0; at < bins; ++at) starts_[at + 1] += starts_[at];
    sorted_.resize(count);
    for (const Cell& cell : batch_) sorted_[starts_[bin(cell)]++] = cell;
    batch_.swap(sorted_);
  }

  const CellTopology& topology_;
  CellRoutes& routes_;
  CellSizes sizes_;
  Sink& sink_;
  std::vector<Link> links_;
  std::vector<std::uint64_t> speed_;  ///< Bit/s, whole.
  std::vector<double> rate_;
  std::uint32_t full_;
  Ps window_ = 0;
  Ps due_ = kNever;
  std::uint64_t cells_ = 0, lost_ = 0;
  Ps waited_ = 0;
  std::vector<Cell> batch_, sorted_;
  std::vector<std::uint32_t> starts_;
};

}  // namespace railyard::packet
