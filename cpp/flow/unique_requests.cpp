#include "flow/unique_requests.hpp"

#include <stdexcept>

#include "core/random.hpp"
#include "flow/columns.hpp"

namespace railyard {

namespace {

/// An open-addressed set of first tasks, keyed by what their requests are.
class RequestSet {
 public:
  explicit RequestSet(const RequestColumns& columns) : columns_(columns), slots_(1024, -1) {}

  /// The request that task i makes; a new one when no task before it made it.
  std::int32_t find(std::int32_t i, std::vector<std::int32_t>& first) {
    if (2 * first.size() >= slots_.size()) grow(first);
    for (std::size_t slot = hash(i);; ++slot) {
      std::int32_t& request = slots_[slot & (slots_.size() - 1)];
      if (request < 0) {
        request = static_cast<std::int32_t>(first.size());
        first.push_back(i);
        return request;
      }
      if (same(first[static_cast<std::size_t>(request)], i)) return request;
    }
  }

 private:
  bool same(std::int32_t a, std::int32_t b) const {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return columns_.rank[i] == columns_.rank[j] && columns_.peer[i] == columns_.peer[j] &&
           columns_.size_bytes[i] == columns_.size_bytes[j] && columns_.count[i] == columns_.count[j] &&
           columns_.kind[i] == columns_.kind[j] && columns_.collective[i] == columns_.collective[j];
  }

  std::size_t hash(std::int32_t task) const {
    const auto i = static_cast<std::size_t>(task);
    const auto ends = static_cast<std::uint64_t>(static_cast<std::uint32_t>(columns_.rank[i])) << 32 |
                      static_cast<std::uint32_t>(columns_.peer[i]);
    const auto what = static_cast<std::uint64_t>(columns_.size_bytes[i]) ^
                      static_cast<std::uint64_t>(static_cast<std::uint32_t>(columns_.count[i])) << 40 ^
                      static_cast<std::uint64_t>(columns_.kind[i]) << 56 ^
                      static_cast<std::uint64_t>(columns_.collective[i]) << 60;
    return static_cast<std::size_t>(mix(ends ^ mix(what)));
  }

  void grow(const std::vector<std::int32_t>& first) {
    slots_.assign(4 * slots_.size(), -1);
    for (std::size_t request = 0; request < first.size(); ++request) {
      std::size_t slot = hash(first[request]);
      while (slots_[slot & (slots_.size() - 1)] >= 0) ++slot;
      slots_[slot & (slots_.size() - 1)] = static_cast<std::int32_t>(request);
    }
  }

  const RequestColumns& columns_;
  std::vector<std::int32_t> slots_;
};

}  // namespace

Requests unique_requests(const RequestColumns& columns) {
  const std::size_t n = columns.kind.size();
  if (columns.rank.size() != n || columns.peer.size() != n || columns.size_bytes.size() != n ||
      columns.count.size() != n || columns.collective.size() != n || n > INT32_MAX) {
    throw std::invalid_argument("request columns differ in length");
  }
  Requests found;
  found.request.resize(n, -1);
  RequestSet set(columns);
  for (std::size_t i = 0; i < n; ++i) {
    if (columns.kind[i] == static_cast<std::uint8_t>(Kind::compute)) continue;
    found.request[i] = set.find(static_cast<std::int32_t>(i), found.first);
  }
  return found;
}

}  // namespace railyard
