#include "packet/merge.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace railyard::packet {

Counters& Counters::operator+=(const Counters& other) {
  sent += other.sent;
  retransmitted += other.retransmitted;
  requests += other.requests;
  acks += other.acks;
  nacks += other.nacks;
  pulls += other.pulls;
  trimmed += other.trimmed;
  dropped += other.dropped;
  marked += other.marked;
  hops += other.hops;
  timeouts += other.timeouts;
  duplicates += other.duplicates;
  cnps += other.cnps;
  lost += other.lost;
  link_retries += other.link_retries;
  pauses += other.pauses;
  credits += other.credits;
  return *this;
}

namespace {

template <class T>
void add(std::vector<T>& to, const std::vector<T>& from) {
  for (std::size_t at = 0; at < to.size() && at < from.size(); ++at) to[at] += from[at];
}

/// Where a flow has not come to that a part says -1.
template <class T>
void greatest(std::vector<T>& to, const std::vector<T>& from) {
  for (std::size_t at = 0; at < to.size() && at < from.size(); ++at) to[at] = std::max(to[at], from[at]);
}

}  // namespace

Outcome merge(std::vector<Outcome> parts) {
  Outcome whole = std::move(parts.front());
  for (std::size_t part = 1; part < parts.size(); ++part) {
    const Outcome& other = parts[part];
    greatest(whole.start_ps, other.start_ps);
    greatest(whole.finish_ps, other.finish_ps);
    greatest(whole.receiver_finish_ps, other.receiver_finish_ps);
    add(whole.link_bytes, other.link_bytes);
    add(whole.pauses.paused_ps, other.pauses.paused_ps);
    add(whole.pauses.longest_ps, other.pauses.longest_ps);
    add(whole.pauses.pauses, other.pauses.pauses);
    add(whole.pauses.flow_paused_ps, other.pauses.flow_paused_ps);
    add(whole.pauses.flow_victim_ps, other.pauses.flow_victim_ps);
    greatest(whole.pauses.flow_origin, other.pauses.flow_origin);
    greatest(whole.pauses.origin, other.pauses.origin);
    whole.counters += other.counters;
    whole.samples.time_ps.resize(std::min(whole.samples.time_ps.size(), other.samples.time_ps.size()));
    add(whole.samples.depth_bytes, other.samples.depth_bytes);
    add(whole.samples.carried_bytes, other.samples.carried_bytes);
    add(whole.samples.marks, other.samples.marks);
    add(whole.samples.paused_ps, other.samples.paused_ps);
    add(whole.samples.window_bytes, other.samples.window_bytes);
    add(whole.samples.rate_bps, other.samples.rate_bps);
    whole.threads += other.threads;
    whole.events += other.events;
    whole.packets_peak += other.packets_peak;
    whole.now_ps = std::max(whole.now_ps, other.now_ps);
  }
  return whole;
}

}  // namespace railyard::packet
