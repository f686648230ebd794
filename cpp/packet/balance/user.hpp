#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "packet/balance/path_choice.hpp"
#include "packet/draws.hpp"

namespace railyard::packet {

/// Load balancing by functions that a user compiled.
struct UserBalanceOptions {
  static constexpr std::size_t kSlots = 24;
  std::uintptr_t next = 0, feedback = 0, choose = 0;
  std::array<std::uint64_t, kSlots> slots{};
};

/// What a user's balancer keeps of a flow: float64 or int64, as it likes.
struct UserPath {
  std::array<std::uint64_t, UserBalanceOptions::kSlots> slots{};
};

/// An egress that a packet could leave by, as a user's `choose` sees it.
struct UserPort {
  std::int64_t queue_bytes, limit_bytes, link;
};
static_assert(sizeof(UserPath) == 8 * UserBalanceOptions::kSlots && sizeof(UserPort) == 24);

/// Load balancing in functions that a user compiled. `next` returns the entropy plus 1, `feedback` 1, `choose` the row of
/// the egress plus 1; anything else is a failure and ends the run.
class UserBalance {
 public:
  using Next = std::int64_t (*)(UserPath*, std::int64_t now_ps, std::int64_t random, std::int64_t paths);
  using Learn = std::int64_t (*)(UserPath*, std::int64_t entropy, std::int64_t what, std::int64_t now_ps);
  using Choose = std::int64_t (*)(const UserPort*, std::int64_t count, std::int64_t random, std::int64_t now_ps);

  UserBalance(std::uint32_t flows, const Options& options)
      : options_(options.of<UserBalanceOptions>()), seed_(options.seed), paths_(options.paths), flows_(flows) {
    for (Flow& flow : flows_) flow.path.slots = options_.slots;
  }

  std::uint16_t next(std::uint32_t flow, Ps now) {
    Flow& at = flows_[flow];
    // Without a function of its own every flow keeps one entropy, so that `choose` alone can be given.
    if (options_.next == 0) return static_cast<std::uint16_t>(draw(stream_key(seed_, Stream::entropy, flow), 0));
    const auto random = static_cast<std::int64_t>(draw(stream_key(seed_, Stream::entropy, flow), at.draws++) >> 1);
    const std::int64_t found = reinterpret_cast<Next>(options_.next)(&at.path, now, random, paths_) - 1;
    if (found < 0 || found > 0xffff) [[unlikely]] refuse("next_entropy", found, 0xffff);
    return static_cast<std::uint16_t>(found);
  }

  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) {
    if (options_.feedback == 0) return;
    const auto call = reinterpret_cast<Learn>(options_.feedback);
    if (call(&flows_[flow].path, entropy, static_cast<std::int64_t>(what), now) != 1) [[unlikely]]
      refuse("feedback", -1, 0);
  }

  /// The row of the egress that a packet leaves by. PRE: options.choose is set, ports is not empty.
  static std::size_t choose(const UserBalanceOptions& options, std::span<const UserPort> ports, std::uint64_t random, Ps now) {
    const auto count = static_cast<std::int64_t>(ports.size());
    const auto call = reinterpret_cast<Choose>(options.choose);
    const std::int64_t found = call(ports.data(), count, static_cast<std::int64_t>(random >> 1), now) - 1;
    if (found < 0 || found >= count) [[unlikely]] refuse("choose", found, count - 1);
    return static_cast<std::size_t>(found);
  }

  static Mechanism record() {
    return {.family = Family::load_balancing,
            .name = "user",
            .summary = "Functions that a user compiled."};
  }

 private:
  struct Flow {
    UserPath path;
    std::uint64_t draws = 0;
  };

  [[noreturn, gnu::cold]] static void refuse(const char* name, std::int64_t found, std::int64_t most) {
    const std::string start = std::string("the user's ") + name;
    if (most == 0 || found == -1) throw std::invalid_argument(start + " raised an error (printed above), or returned -1");
    throw std::invalid_argument(start + " returned " + std::to_string(found) + ", which is not in 0 to " + std::to_string(most));
  }

  UserBalanceOptions options_;
  std::uint64_t seed_;
  std::int64_t paths_;
  std::vector<Flow> flows_;
};

inline const LoadBalancer<UserBalance> kUserBalance;

}  // namespace railyard::packet
