#include "core/event_queue.hpp"

#include <queue>
#include <tuple>

#include "core/harness.hpp"
#include "core/random.hpp"

using namespace railyard;

TEST(event_queue_gives_batches_in_order_of_time_and_insertion) {
  EventQueue queue;
  queue.push({50, 1, 0});
  queue.push({7, 2, 0});
  queue.push({50, 3, 0});
  queue.push({0, 4, 0});
  CHECK(queue.batch().size() == 1 && queue.batch()[0].target == 4);
  CHECK(queue.advance() && queue.now() == 7 && queue.batch().size() == 1);
  queue.push({50, 5, 0});
  CHECK(queue.advance() && queue.now() == 50 && queue.batch().size() == 3);
  CHECK(queue.batch()[0].target == 1 && queue.batch()[1].target == 3 && queue.batch()[2].target == 5);
  queue.push({50, 6, 0});
  CHECK(queue.batch().back().target == 6);
  CHECK(!queue.advance() && queue.empty());
}

/// Against the standard library's heap with a sequence number, over the spreads of time that a run has.
TEST(event_queue_equals_a_heap) {
  using Entry = std::tuple<Ps, std::uint32_t>;
  EventQueue queue;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
  std::uint64_t state = 1;
  std::uint32_t sequence = 0;
  const auto random = [&state](std::uint64_t end) { return static_cast<Ps>(mix(state++) % end); };
  const auto push = [&](Ps time) {
    queue.push({time, sequence, 0});
    heap.emplace(time, sequence++);
  };
  for (int i = 0; i < 1000; ++i) push(random(1'000'000'000));
  do {
    for (std::size_t i = 0; i < queue.batch().size(); ++i) {
      const Event event = queue.batch()[i];
      CHECK(heap.top() == Entry(event.time, event.target));
      heap.pop();
      const Ps spreads[] = {1, 3, 1000, 1'000'000'000, Ps{1} << 50};
      if (sequence < 50'000 && random(8) > 0) push(queue.now() + random(static_cast<std::uint64_t>(spreads[random(5)])));
    }
  } while (queue.advance());
  CHECK(heap.empty() && sequence > 5'000);
}
