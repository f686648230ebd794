#include "synthesis/timing.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <tuple>

namespace railyard::synthesis {
namespace {

enum Kind : std::int32_t { kReady, kFree, kThere };

struct Event {
  double time;
  Kind kind;
  std::int32_t send;
  auto order() const { return std::tie(time, kind, send); }
  bool operator>(const Event& other) const { return order() > other.order(); }
};

/// The most urgent first, of equals the lower number.
struct Waiting {
  double urgency;
  std::int32_t send;
  bool operator>(const Waiting& other) const {
    return urgency != other.urgency ? urgency < other.urgency : send > other.send;
  }
};

template <class T>
using Lowest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

void check(const Sends& sends, std::int32_t links) {
  const std::size_t count = sends.link.size();
  if (sends.takes_us.size() != count || sends.late_us.size() != count || sends.after_ptr.size() != count + 1 ||
      (!sends.planned_us.empty() && sends.planned_us.size() != count) || sends.after_ptr[0] != 0 ||
      sends.after_ptr[count] != static_cast<std::int64_t>(sends.after.size()))
    throw std::invalid_argument("a column of sends has another length");
  for (std::size_t send = 0; send < count; ++send) {
    if (sends.link[send] < 0 || sends.link[send] >= links) throw std::invalid_argument("a send has no such link");
    if (sends.after_ptr[send] > sends.after_ptr[send + 1]) throw std::invalid_argument("pointers of sends fall");
    for (auto at = sends.after_ptr[send]; at < sends.after_ptr[send + 1]; ++at) {
      const auto before = sends.after[static_cast<std::size_t>(at)];
      if (before < 0 || static_cast<std::size_t>(before) >= send)
        throw std::invalid_argument("a send waits for one that is no earlier");
    }
  }
}

/// Who waits for whom, and how urgent each send is.
class Order {
 public:
  explicit Order(const Sends& sends) : urgency(sends.late_us.begin(), sends.late_us.end()), first_(urgency.size() + 1) {
    const std::size_t count = urgency.size();
    for (const auto before : sends.after) ++first_[static_cast<std::size_t>(before) + 1];
    for (std::size_t send = 0; send < count; ++send) first_[send + 1] += first_[send];
    next_.resize(sends.after.size());
    left.resize(count);
    auto at = first_;
    for (std::size_t send = 0; send < count; ++send) {
      left[send] = static_cast<std::int32_t>(sends.after_ptr[send + 1] - sends.after_ptr[send]);
      for (auto i = sends.after_ptr[send]; i < sends.after_ptr[send + 1]; ++i)
        next_[static_cast<std::size_t>(at[static_cast<std::size_t>(sends.after[static_cast<std::size_t>(i)])]++)] =
            static_cast<std::int32_t>(send);
    }
    if (!sends.planned_us.empty()) {
      for (std::size_t send = 0; send < count; ++send) urgency[send] = -sends.planned_us[send];
      return;
    }
    for (std::size_t send = count; send-- > 0;) {
      double longest = 0;
      for (const auto one : behind(send)) longest = std::max(longest, urgency[static_cast<std::size_t>(one)]);
      urgency[send] += longest;
    }
  }

  std::span<const std::int32_t> behind(std::size_t send) const {
    return std::span(next_).subspan(static_cast<std::size_t>(first_[send]),
                                    static_cast<std::size_t>(first_[send + 1] - first_[send]));
  }

  std::vector<double> urgency;
  std::vector<std::int32_t> left;

 private:
  std::vector<std::int64_t> first_;
  std::vector<std::int32_t> next_;
};

class Run {
 public:
  Run(const Sends& sends, std::int32_t links)
      : sends_(sends),
        order_(sends),
        waiting_(static_cast<std::size_t>(links)),
        busy_(static_cast<std::size_t>(links)),
        start_(sends.link.size()) {}

  std::vector<double> starts() {
    for (std::size_t send = 0; send < start_.size(); ++send)
      if (order_.left[send] == 0) events_.push({0, kReady, static_cast<std::int32_t>(send)});
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    return std::move(start_);
  }

 private:
  void handle(const Event& event) {
    const auto send = static_cast<std::size_t>(event.send);
    touched_.clear();
    if (event.kind == kReady) {
      wait(send);
    } else if (event.kind == kFree) {
      busy_[link(send)] = 0;
      touched_.push_back(link(send));
    } else {
      for (const auto one : order_.behind(send))
        if (--order_.left[static_cast<std::size_t>(one)] == 0) wait(static_cast<std::size_t>(one));
    }
    for (const auto one : touched_) begin(one, event.time);
  }

  void wait(std::size_t send) {
    waiting_[link(send)].push({order_.urgency[send], static_cast<std::int32_t>(send)});
    touched_.push_back(link(send));
  }

  void begin(std::size_t on, double time) {
    if (busy_[on] || waiting_[on].empty()) return;
    const auto number = waiting_[on].top().send;
    const auto send = static_cast<std::size_t>(number);
    waiting_[on].pop();
    busy_[on] = 1;
    start_[send] = time;
    events_.push({time + sends_.takes_us[send], kFree, number});
    events_.push({time + sends_.late_us[send], kThere, number});
  }

  std::size_t link(std::size_t send) const { return static_cast<std::size_t>(sends_.link[send]); }

  const Sends& sends_;
  Order order_;
  std::vector<Lowest<Waiting>> waiting_;
  std::vector<std::uint8_t> busy_;
  std::vector<double> start_;
  std::vector<std::size_t> touched_;
  Lowest<Event> events_;
};

}  // namespace

std::vector<double> starts_us(const Sends& sends, std::int32_t links) {
  check(sends, links);
  return Run(sends, links).starts();
}

}  // namespace railyard::synthesis
