#include "serving/cost.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace railyard::serving {
namespace {

std::int64_t between(std::span<const std::int64_t> x, std::span<const double> y, std::size_t upper, std::int64_t at) {
  if (upper == 0) return fine_of_seconds(y[0]);
  const std::int64_t low = fine_of_seconds(y[upper - 1]), high = fine_of_seconds(y[upper]);
  const std::int64_t width = x[upper] - x[upper - 1];
  return low + static_cast<std::int64_t>(static_cast<i128>(high - low) * (at - x[upper - 1]) / width);
}

std::vector<std::int64_t> tabulate(std::span<const std::int64_t> rows, std::span<const double> seconds, std::int64_t max_tokens) {
  std::vector<std::int64_t> table(static_cast<std::size_t>(max_tokens) + 1);
  std::size_t upper = 0;
  for (std::int64_t tokens = 0; tokens <= max_tokens; ++tokens) {
    while (rows[upper] < tokens) ++upper;
    table[static_cast<std::size_t>(tokens)] = between(rows, seconds, upper, tokens);
  }
  return table;
}

}  // namespace

Cost::Cost(const CostSpec& spec, std::int64_t max_tokens, std::int64_t lockstep)
    : table_(tabulate(spec.tokens, spec.compute_s, max_tokens)),
      network_(tabulate(spec.tokens, spec.network_s, max_tokens)),
      host_(fine_of_seconds(spec.host_s)),
      per_seq_(fine_of_seconds(spec.host_per_seq_s)),
      per_kv_(fine_of_seconds(spec.attention_per_kv_token_s)),
      per_decode_(fine_of_seconds(spec.attention_per_sequence_s)),
      floor_(fine_of_seconds(spec.attention_floor_s)),
      per_pair_(fine_of_seconds(spec.attention_per_pair_s)) {
  for (std::size_t i = 0; i < table_.size(); ++i) table_[i] += network_[i];
  if (!spec.scale_out_slack_s.empty()) slack_ = tabulate(spec.tokens, spec.scale_out_slack_s, max_tokens);
  if (!spec.joint_tokens.empty()) {
    joint_ = tabulate(spec.joint_tokens, spec.joint_compute_s, lockstep * max_tokens);
    joint_network_ = tabulate(spec.joint_tokens, spec.joint_network_s, lockstep * max_tokens);
    for (std::size_t i = 0; i < joint_.size(); ++i) joint_[i] += joint_network_[i];
  }
  for (std::size_t i = 0; i < spec.overlapped_s.size(); ++i) {
    overlapped_.push_back({tabulate(spec.tokens, spec.overlapped_s[i], max_tokens), fine_of_seconds(spec.overlapped_per_kv_token_s[i])});
  }
}

Fine Cost::base(const Load& load) const {
  return static_cast<Fine>(host_) + static_cast<Fine>(per_seq_) * load.sequences +
         table_[static_cast<std::size_t>(load.tokens)] + load.pairs * per_pair_;
}

Fine Cost::time(const Load& load) const {
  if (load.decodes == 0) return base(load);
  Fine longest = std::max<Fine>(
      floor_, static_cast<Fine>(per_decode_) * load.decodes + static_cast<Fine>(per_kv_) * load.kv_tokens);
  for (const Overlapped& one : overlapped_) {
    longest = std::max(longest, static_cast<Fine>(one.per_kv) * load.kv_tokens - one.hidden[static_cast<std::size_t>(load.tokens)]);
  }
  return base(load) + longest;
}

/// The times of which the longest counts, in a run of decodes.
std::vector<Cost::Line> Cost::lines(const Load& load) const {
  std::vector<Line> found{{.first = floor_, .step = 0},
                          {.first = static_cast<Fine>(per_decode_) * load.decodes + static_cast<Fine>(per_kv_) * load.kv_tokens,
                           .step = static_cast<Fine>(per_kv_) * load.decodes}};
  for (const Overlapped& one : overlapped_) {
    found.push_back({.first = static_cast<Fine>(one.per_kv) * load.kv_tokens - one.hidden[static_cast<std::size_t>(load.tokens)],
                     .step = static_cast<Fine>(one.per_kv) * load.decodes});
  }
  return found;
}

/// Sum of the longest over iterations 0 to count - 1: piece by piece, each an arithmetic series.
Fine Cost::envelope(const std::vector<Line>& lines, std::int64_t count) {
  Fine total = 0;
  for (std::int64_t k = 0; k < count;) {
    Line top = lines.front();
    for (const Line& line : lines) {
      if (line.at(k) > top.at(k) || (line.at(k) == top.at(k) && line.step > top.step)) top = line;
    }
    std::int64_t end = count;
    for (const Line& line : lines) {
      if (line.step <= top.step) continue;
      end = static_cast<std::int64_t>(std::min<Fine>(end, (top.first - line.first) / (line.step - top.step) + 1));
    }
    const Fine length = end - k;
    total += length * top.at(k) + top.step * (length * (length - 1) / 2);
    k = end;
  }
  return total;
}

Cost::Growth Cost::growth(const Load& load) const {
  Growth found{.base = base(load), .floor = floor_,
               .line = {.first = static_cast<Fine>(per_decode_) * load.decodes + static_cast<Fine>(per_kv_) * load.kv_tokens,
                        .step = static_cast<Fine>(per_kv_) * load.decodes}};
  const Line& line = found.line;
  if (line.first < floor_) found.flat = line.step > 0 ? (floor_ - line.first + line.step - 1) / line.step : std::numeric_limits<std::int64_t>::max();
  return found;
}

Fine Cost::Growth::time(std::int64_t count) const {
  const Fine level = std::min<Fine>(count, flat), growing = count - level;
  return base * count + floor * level + growing * line.at(static_cast<std::int64_t>(level)) +
         line.step * (growing * (growing - 1) / 2);
}

Fine Cost::run_time(const Load& load, std::int64_t count) const {
  if (!overlapped_.empty()) return base(load) * count + envelope(lines(load), count);
  return growth(load).time(count);
}

std::int64_t Cost::run_within(const Load& load, Fine span, std::int64_t limit, Fine more) const {
  std::int64_t low = 0, high = limit;
  const Growth plain = growth(load);  // found once: dividing takes as long as the rest
  const auto time = [&](std::int64_t count) { return overlapped_.empty() ? plain.time(count) : run_time(load, count); };
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (time(middle) + more * middle < span) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace railyard::serving
