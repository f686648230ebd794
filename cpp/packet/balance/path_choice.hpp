#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "packet/balance/feedback.hpp"
#include "packet/options.hpp"

namespace railyard::packet {

/// How senders choose the paths of a run's packets. A load balancer is a class in a file of its own with
///   X(std::uint32_t flows, const Options&), or X(std::uint32_t flows, std::uint32_t paths, std::uint64_t seed)
///   std::uint16_t next(std::uint32_t flow, Ps now)   the entropy of the flow's next packet
///   feedback(std::uint32_t flow, std::uint16_t entropy, Feedback, Ps now)   what came back over a path, where it matters
///   static Mechanism record()
/// and, at the end of the file, `inline const LoadBalancer<X> kX;`, which puts it on the list.
class PathChoice {
 public:
  using Make = std::unique_ptr<PathChoice> (*)(std::uint32_t flows, const Options& options);

  explicit PathChoice(bool learns) : learns_(learns) {}
  PathChoice(const PathChoice&) = delete;
  PathChoice& operator=(const PathChoice&) = delete;
  virtual ~PathChoice() = default;

  virtual std::uint16_t next(std::uint32_t flow, Ps now) = 0;
  virtual void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) = 0;
  /// Whether feedback means anything to it.
  bool learns() const { return learns_; }

  /// Throws std::invalid_argument for a name that is not on the list.
  static std::unique_ptr<PathChoice> of(std::uint32_t flows, const Options& options);
  static void add(const std::string& name, Make make);

 private:
  bool learns_;
};

namespace detail {

template <class Rule>
concept Learns = requires(Rule& rule) { rule.feedback(0u, std::uint16_t{0}, Feedback::good, Ps{0}); };

template <class Rule>
class PathChoiceBy final : public PathChoice {
 public:
  PathChoiceBy(std::uint32_t flows, const Options& options) : PathChoice(Learns<Rule>), rule_(make(flows, options)) {}

  std::uint16_t next(std::uint32_t flow, Ps now) override { return rule_.next(flow, now); }
  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) override {
    if constexpr (Learns<Rule>) rule_.feedback(flow, entropy, what, now);
  }

 private:
  static Rule make(std::uint32_t flows, const Options& options) {
    if constexpr (std::constructible_from<Rule, std::uint32_t, const Options&>) return Rule(flows, options);
    else return Rule(flows, options.paths, options.seed);
  }

  Rule rule_;
};

}  // namespace detail

/// Puts a load balancer on the list. One that acts in switches gives the rule of the senders beside it.
template <class Described, class Rule = Described>
struct LoadBalancer {
  LoadBalancer() {
    Mechanism record = Described::record();
    PathChoice::add(record.name, [](std::uint32_t flows, const Options& options) -> std::unique_ptr<PathChoice> {
      return std::make_unique<detail::PathChoiceBy<Rule>>(flows, options);
    });
    if (record.name != "user") Registration{std::move(record)};
  }
};

/// The choice of a run, whose rules see connections in place of flows: what one message has learnt of the paths serves the
/// next. WHY not `PathChoice` itself: balancers that learn nothing are spared the calls.
class Balancer {
 public:
  Balancer(const TrafficColumns& traffic, const Options& options)
      : traffic_(traffic), choice_(PathChoice::of(traffic.connections(), options)), learns_(choice_->learns()) {}

  std::uint16_t next(std::uint32_t flow, Ps now) { return choice_->next(traffic_.connection_of(flow), now); }
  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) {
    if (learns_) choice_->feedback(traffic_.connection_of(flow), entropy, what, now);
  }

 private:
  const TrafficColumns& traffic_;
  std::unique_ptr<PathChoice> choice_;
  bool learns_;
};

}  // namespace railyard::packet
