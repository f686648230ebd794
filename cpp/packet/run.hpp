#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "packet/engine.hpp"
#include "packet/frozen.hpp"
#include "packet/merge.hpp"
#include "packet/stuck.hpp"

namespace railyard::packet {

/// Until when a run goes on: when every flow has finished, what is still on its way arrives.
/// WHY not to the end of it: some of what hosts and switches do, they do for ever.
inline Ps drain_time(const NetworkColumns& network, const Derived& derived) {
  Ps longest = derived.base_rtt_ps;
  for (const std::int64_t latency : network.latency_ps) longest = std::max(longest, latency);
  return longest;
}

/// Runs on one thread.
template <class Engine>
Outcome run_whole(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                  const Derived& derived, const Heartbeat& heartbeat) {
  Engine engine(network, traffic, options, derived, nullptr);
  engine.finish(options.end_ps != 0 ? options.end_ps : kNever, drain_time(network, derived), heartbeat);
  return engine.outcome();
}

/// Runs on several threads, one a part, in windows of time no longer than the least delay of a link between parts (the
/// conservative synchronization of Chandy and Misra): what one part sends in a window arrives in another after it.
template <class Engine>
class Parallel {
 public:
  Parallel(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options, const Derived& derived,
           const Partition& partition)
      : partition_(partition), end_(options.end_ps != 0 ? options.end_ps : kNever),
        drain_(drain_time(network, derived)), barrier_(static_cast<std::ptrdiff_t>(partition.parts)) {
    for (unsigned part = 0; part < partition.parts; ++part)
      exchanges_.push_back(std::make_unique<Exchange>(partition, network, part));
    engines_.resize(partition.parts);
    states_.resize(partition.parts);
    make_ = [&network, &traffic, &options, &derived, this](unsigned part) {
      engines_[part] = std::make_unique<Engine>(network, traffic, options, derived, exchanges_[part].get());
    };
  }

  Outcome run(const Heartbeat& heartbeat) {
    std::vector<std::jthread> threads;
    for (unsigned part = 1; part < partition_.parts; ++part)
      threads.emplace_back([this, part] { work(part, [](std::uint64_t, Ps) {}); });
    try {
      work(0, heartbeat);  // the caller's own thread: the heartbeat may need it
    } catch (...) {
      failed_ = true;
      barrier_.arrive_and_drop();
      throw;
    }
    threads.clear();
    if (rethrow_) rethrow_();
    std::vector<Outcome> outcomes;
    for (const auto& engine : engines_) outcomes.push_back(engine->outcome());
    return merge(std::move(outcomes));
  }

 private:
  struct alignas(64) State {
    Ps next = 0, last_finish = 0;
    std::uint32_t unfinished = 0;
  };

  void work(unsigned part, const Heartbeat& heartbeat) {
    guarded(part, [&] { make_(part); });
    for (;;) {
      if (!failed_) states_[part] = {engines_[part]->next_time(), engines_[part]->last_finish(), engines_[part]->unfinished()};
      barrier_.arrive_and_wait();
      const Ps end = stop();
      const Ps until = failed_ ? 0 : window(end);
      // WHY a second meeting: nobody may fail, or change its state, before all have read.
      barrier_.arrive_and_wait();
      if (until == 0) {
        if (!failed_) engines_[part]->end(end);
        return;
      }
      guarded(part, [&] { engines_[part]->advance(until, heartbeat); });
      barrier_.arrive_and_wait();
      if (failed_) continue;
      guarded(part, [&] {
        for (const auto& exchange : exchanges_)
          engines_[part]->receive(exchange->parcels(part), exchange->telemetry(part));
      });
    }
  }

  /// When the run ends, as far as is known.
  Ps stop() const {
    Ps last_finish = 0;
    std::uint64_t unfinished = 0;
    for (const State& state : states_) {
      last_finish = std::max(last_finish, state.last_finish);
      unfinished += state.unfinished;
    }
    return unfinished == 0 ? std::min(end_, last_finish + drain_) : end_;
  }

  /// Up to when everybody may work; 0: nobody has anything more to do.
  Ps window(Ps end) const {
    Ps next = kNever;
    for (const State& state : states_) next = std::min(next, state.next);
    if (next >= end) return 0;
    if (partition_.lookahead > end - next) return end;
    const Ps span = engines_.front()->window();
    return std::max(next + 1, (next + partition_.lookahead) / span * span);
  }

  /// Keeps what another thread than the caller's throws.
  /// WHY not as a std::exception_ptr: with GCC 11 and newer it needs a libstdc++ of that age (see core/baseline.hpp).
  template <class Step>
  void guarded(unsigned part, Step&& step) {
    if (part == 0) return step();
    try {
      step();
    } catch (const Frozen& error) {
      fail(error);
    } catch (const Stuck& error) {
      fail(error);
    } catch (const std::invalid_argument& error) {
      fail(error);
    } catch (const std::bad_alloc& error) {
      fail(error);
    } catch (const std::exception& error) {
      fail(std::runtime_error(error.what()));
    }
  }

  template <class Error>
  void fail(const Error& error) {
    if (!failed_.exchange(true)) rethrow_ = [error] { throw error; };
  }

  const Partition& partition_;
  Ps end_, drain_;
  std::function<void(unsigned)> make_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<State> states_;
  std::barrier<> barrier_;
  std::atomic<bool> failed_ = false;
  std::function<void()> rethrow_;
};

/// Runs on as many threads as the options say and the traffic allows; the outcome is the same on any number.
template <class Engine>
Outcome run_engine(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options,
                   const Derived& derived, const Heartbeat& heartbeat) {
  if constexpr (Engine::kParts) {
    if (options.threads > 1 && options.retune_ps == 0) {  // a reading is of the whole network
      const Partition partition = Partition::cut(network, std::min(options.threads, network.hosts));
      try {
        if (partition.lookahead > 0 && partition.separates(traffic))
          return Parallel<Engine>(network, traffic, options, derived, partition).run(heartbeat);
      } catch (const Frozen&) {
        return run_whole<Engine>(network, traffic, options, derived, heartbeat);  // finds out whether it is for ever
      }
    }
  }
  return run_whole<Engine>(network, traffic, options, derived, heartbeat);
}

}  // namespace railyard::packet
