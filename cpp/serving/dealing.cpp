#include "serving/dealing.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>

namespace railyard::serving {

std::vector<std::int64_t> dealt(std::span<const double> asked_s, std::span<const double> there_s,
                                std::span<const double> end_s, std::int64_t replicas) {
  if (there_s.size() != asked_s.size() || end_s.size() != asked_s.size()) throw std::invalid_argument("columns differ in length");
  if (replicas < 1) throw std::invalid_argument("there are no replicas");
  std::vector<std::int64_t> found, there(static_cast<std::size_t>(replicas));
  found.reserve(asked_s.size());
  using Change = std::pair<double, std::int64_t>;  // when, and the replica; comes: its number, leaves: -1 - its number
  std::priority_queue<Change, std::vector<Change>, std::greater<>> coming;
  for (std::size_t i = 0; i < asked_s.size(); ++i) {
    for (; !coming.empty() && coming.top().first <= asked_s[i]; coming.pop()) {
      const std::int64_t replica = coming.top().second;
      replica >= 0 ? ++there[static_cast<std::size_t>(replica)] : --there[static_cast<std::size_t>(-1 - replica)];
    }
    const std::int64_t replica = std::ranges::min_element(there) - there.begin();
    if (there_s[i] > asked_s[i]) {
      coming.emplace(there_s[i], replica);
    } else {
      ++there[static_cast<std::size_t>(replica)];
    }
    coming.emplace(end_s[i], -1 - replica);
    found.push_back(replica);
  }
  return found;
}

}  // namespace railyard::serving
