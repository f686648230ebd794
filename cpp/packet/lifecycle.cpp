#include "packet/lifecycle.hpp"

#include <algorithm>

namespace railyard::packet {

Lifecycle::Lifecycle(const TrafficColumns& traffic, Outcome& outcome, Wheel& wheel, const Exchange* part)
    : traffic_(traffic), outcome_(outcome), wheel_(wheel), waits_(traffic.source.size()),
      after_ptr_(traffic.source.size() + 1), after_(traffic.dep_idx.size()),
      part_(part) {
  const std::size_t flows = traffic.source.size();
  outcome_.start_ps.assign(flows, -1);
  outcome_.finish_ps.assign(flows, -1);
  outcome_.receiver_finish_ps.assign(flows, -1);
  for (const std::int32_t before : traffic.dep_idx) ++after_ptr_[static_cast<std::size_t>(before) + 1];
  for (std::size_t flow = 0; flow < flows; ++flow) after_ptr_[flow + 1] += after_ptr_[flow];
  std::vector<std::uint32_t> at(after_ptr_.begin(), after_ptr_.end() - 1);
  for (std::size_t flow = 0; flow < flows; ++flow) {
    const auto end = static_cast<std::size_t>(traffic.dep_ptr[flow + 1]);
    for (auto dep = static_cast<std::size_t>(traffic.dep_ptr[flow]); dep < end; ++dep)
      after_[at[static_cast<std::size_t>(traffic.dep_idx[dep])]++] = {static_cast<std::uint32_t>(flow), traffic.dep_at[dep]};
    waits_[flow] = static_cast<std::uint32_t>(traffic.need[flow]);
    if (owns(flow)) ++unfinished_;
  }
}

void Lifecycle::begin() {
  for (std::uint32_t flow = 0; flow < waits_.size(); ++flow) {
    if (waits_[flow] != 0 || !owns(flow)) continue;
    wheel_.push(std::max<Ps>(traffic_.start_ps[flow], 0) + traffic_.delay_ps[flow], event(Event::start, flow));
  }
}

void Lifecycle::finish_local(std::uint32_t flow, Ps now) {
  outcome_.start_ps[flow] = now - traffic_.delay_ps[flow];
  announce(flow, kAtReceiver, now);
  announce(flow, kAtSender, now);
}

void Lifecycle::release(std::uint32_t flow, std::uint8_t at, Ps now) {
  for (std::uint32_t index = after_ptr_[flow]; index < after_ptr_[flow + 1]; ++index) {
    const After& after = after_[index];
    // Beyond `need` further dependencies change nothing.
    if (after.at != at || waits_[after.flow] == 0 || --waits_[after.flow] != 0) continue;
    wheel_.push(std::max(now, traffic_.start_ps[after.flow]) + traffic_.delay_ps[after.flow],
                event(Event::start, after.flow));
  }
}

}  // namespace railyard::packet
