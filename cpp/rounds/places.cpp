#include "rounds/places.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>

#include "rounds/fluid.hpp"

namespace railyard::rounds {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class What : std::uint8_t { arrives, downloads, uploads, leaves };  // of those at one time, in this order

struct Event {
  double at_s;
  What what;
  std::uint32_t row;
  bool operator>(const Event& other) const {
    if (at_s != other.at_s) return at_s > other.at_s;
    return what != other.what ? what > other.what : row > other.row;
  }
};

/// The largest limits that may meet each link at a time: one of each place.
std::vector<double> most_bps(const TransferColumns& transfers, std::size_t links, std::size_t places) {
  std::vector<std::vector<double>> limits(links);
  for (std::size_t i = 0; i < transfers.bits.size(); ++i)
    if (transfers.link[i] >= 0) limits[static_cast<std::size_t>(transfers.link[i])].push_back(transfers.limit_bps[i]);
  std::vector<double> sum(links, 0.0);
  for (std::size_t link = 0; link < links; ++link) {
    std::vector<double>& here = limits[link];
    std::sort(here.begin(), here.end(), std::greater<>());
    for (std::size_t i = 0; i < std::min(places, here.size()); ++i) sum[link] += here[i];
  }
  return sum;
}

class Places {
 public:
  Places(const ClientColumns& clients, const BothWays& ways, std::size_t places)
      : clients_(clients),
        ways_(ways),
        rows_(static_cast<std::uint32_t>(clients.delay_s.size())),
        down_(ways.down, ways.down_links, most_bps(ways.down, ways.down_links.capacity_bps.size(), places)),
        up_(ways.up, ways.up_links, most_bps(ways.up, ways.up_links.capacity_bps.size(), places)),
        done_(rows_, false) {
    for (auto* column : {&found_.begun_s, &found_.down_s, &found_.got_s, &found_.up_s, &found_.sent_s, &found_.end_s})
      column->assign(rows_, kNever);
    for (std::size_t place = 0; place < places; ++place) take();
  }

  Visits run(std::size_t updates) {
    while (found_.came.size() < updates && !exhausted_) {
      const double event = events_.empty() ? kNever : events_.top().at_s;
      now_ = std::min({event, down_.next_end(), up_.next_end()});
      if (!std::isfinite(now_)) throw std::invalid_argument("clients that neither come back nor leave");
      down_.move_to(now_), up_.move_to(now_);
      finish(down_, [&](std::uint32_t row) { got(row); });
      finish(up_, [&](std::uint32_t row) { sent(row); });
      while (!events_.empty() && events_.top().at_s <= now_ && !exhausted_ && found_.came.size() < updates) {
        const Event one = events_.top();
        events_.pop();
        handle(one);
      }
      down_.settle(), up_.settle();
    }
    return std::move(found_);
  }

 private:
  template <class Then>
  void finish(Fluid& fluid, const Then& then) {
    ended_.clear();
    fluid.finish(ended_);
    for (const std::uint32_t row : ended_) then(row);
  }

  void handle(const Event& one) {
    if (done_[one.row]) return;
    switch (one.what) {
      case What::arrives: return end(one.row, found_.came);
      case What::downloads:
        found_.down_s[one.row] = now_;
        return transfer(down_, ways_.down, one.row, [&] { got(one.row); });
      case What::uploads:
        found_.up_s[one.row] = now_;
        return transfer(up_, ways_.up, one.row, [&] { sent(one.row); });
      case What::leaves:
        if (down_.shares(one.row)) down_.give_up(one.row);
        if (up_.shares(one.row)) up_.give_up(one.row);
        return end(one.row, found_.left);
    }
  }

  /// Over links that may be short, or by itself: then its end is known at once.
  template <class Then>
  void transfer(Fluid& fluid, const TransferColumns& columns, std::uint32_t row, const Then& then) {
    if (fluid.shares(row) && columns.bits[row] > 0) return fluid.begin(row);
    const double begun = now_;
    now_ = begun + columns.bits[row] / columns.limit_bps[row];
    then();
    now_ = begun;
  }

  void got(std::uint32_t row) {
    found_.got_s[row] = now_;
    events_.push({now_ + clients_.work_s[row], What::uploads, row});
  }

  void sent(std::uint32_t row) {
    found_.sent_s[row] = now_;
    events_.push({now_ + clients_.lag_s[row], What::arrives, row});
  }

  void end(std::uint32_t row, std::vector<std::uint32_t>& list) {
    done_[row] = true;
    found_.end_s[row] = now_;
    list.push_back(row);
    take();
  }

  /// The next client; without one the run is over, as what comes later would lack it.
  void take() {
    if (next_ == rows_) {
      exhausted_ = true;
      return;
    }
    const std::uint32_t row = next_++;
    found_.begun_s[row] = now_;
    events_.push({now_ + clients_.delay_s[row], What::downloads, row});
    if (std::isfinite(clients_.leave_s[row])) events_.push({now_ + clients_.leave_s[row], What::leaves, row});
  }

  const ClientColumns& clients_;
  const BothWays& ways_;
  std::uint32_t rows_, next_ = 0;
  Fluid down_, up_;
  std::vector<char> done_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::uint32_t> ended_;
  Visits found_;
  double now_ = 0;
  bool exhausted_ = false;
};

}  // namespace

Visits visits(const ClientColumns& clients, const BothWays& ways, std::size_t places, std::size_t updates) {
  check_columns(ways.down, ways.down_links);
  check_columns(ways.up, ways.up_links);
  const std::size_t rows = clients.delay_s.size();
  if (clients.work_s.size() != rows || clients.lag_s.size() != rows || clients.leave_s.size() != rows ||
      ways.down.bits.size() != rows || ways.up.bits.size() != rows)
    throw std::invalid_argument("columns of clients differ in length");
  return Places(clients, ways, places).run(updates);
}

}  // namespace railyard::rounds
