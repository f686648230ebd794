// Nanoseconds per event of the radix heap against a binary heap, in the hold model: pop one, push one later.
#include <chrono>
#include <cstdio>
#include <queue>
#include <vector>

#include "core/event_queue.hpp"
#include "core/random.hpp"

namespace {

using railyard::Event;
using railyard::Ps;

constexpr int kEvents = 4'000'000;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Ps delay(std::uint64_t i, bool uniform) {
  return uniform ? 9'000'000'000 : static_cast<Ps>(railyard::mix(i) % 20'000'000'000);
}

double radix(int pending, bool uniform) {
  railyard::EventQueue queue;
  for (int i = 0; i < pending; ++i) queue.push({delay(static_cast<std::uint64_t>(i), uniform), 0, 0});
  const double begin = seconds();
  std::uint64_t done = 0;
  while (done < kEvents && queue.advance()) {
    for (std::size_t i = 0; i < queue.batch().size(); ++i) {
      queue.push({queue.now() + 1 + delay(done++, uniform), 0, 0});
    }
  }
  return (seconds() - begin) / static_cast<double>(done) * 1e9;
}

double heap(int pending, bool uniform) {
  const auto later = [](const Event& a, const Event& b) { return a.time > b.time; };
  std::priority_queue<Event, std::vector<Event>, decltype(later)> queue(later);
  for (int i = 0; i < pending; ++i) queue.push({delay(static_cast<std::uint64_t>(i), uniform), 0, 0});
  const double begin = seconds();
  for (std::uint64_t done = 0; done < kEvents; ++done) {
    const Ps now = queue.top().time;
    queue.pop();
    queue.push({now + 1 + delay(done, uniform), 0, 0});
  }
  return (seconds() - begin) / kEvents * 1e9;
}

}  // namespace

int main() {
  std::printf("%10s %10s %18s %18s\n", "pending", "times", "radix heap (ns)", "binary heap (ns)");
  for (const bool uniform : {true, false}) {
    for (const int pending : {1'000, 20'000, 400'000}) {
      std::printf("%10d %10s %18.1f %18.1f\n", pending, uniform ? "equal" : "distinct", radix(pending, uniform),
                  heap(pending, uniform));
    }
  }
}
