#pragma once

#include <cstdint>
#include <variant>

#include "packet/balance/bitmap.hpp"
#include "packet/balance/ecmp.hpp"
#include "packet/balance/flowlet.hpp"
#include "packet/balance/mixed.hpp"
#include "packet/balance/reps.hpp"
#include "packet/balance/skip.hpp"
#include "packet/balance/spray.hpp"
#include "packet/balance/user.hpp"
#include "packet/options.hpp"

namespace railyard::packet {

/// Who chooses paths at the senders, one of the `balance_*` files; with `adaptive` the switches choose and the entropy
/// serves small packets.
/// WHY a switch and not a template: it takes the same branch all through a run, and costs nothing that could be measured.
class Balancer {
 public:
  Balancer(std::uint32_t flows, const Options& options)
      : what_(options.balance), chosen_(make(flows, options)) {}

  /// The entropy of the flow's next packet.
  std::uint16_t next(std::uint32_t flow, Ps now) {
    switch (what_) {
      case Balance::mixed: return get<Mixed>().next(flow);
      case Balance::reps: return get<Reps>().next(flow);
      case Balance::bitmap: return get<Bitmap>().next(flow);
      case Balance::oblivious: return get<Oblivious>().next(flow);
      case Balance::flowlet: return get<Flowlet>().next(flow, now);
      case Balance::user: return get<UserBalance>().next(flow, now);
      case Balance::skip: return get<Skip>().next(flow);
      case Balance::single_path:
      case Balance::adaptive: break;
    }
    return get<SinglePath>().next(flow);
  }

  /// What came back over the path of an entropy.
  void feedback(std::uint32_t flow, std::uint16_t entropy, Feedback what, Ps now) {
    switch (what_) {
      case Balance::mixed: get<Mixed>().feedback(flow, entropy, what, now); break;
      case Balance::reps: get<Reps>().feedback(flow, entropy, what, now); break;
      case Balance::bitmap: get<Bitmap>().feedback(flow, entropy, what, now); break;
      case Balance::user: get<UserBalance>().feedback(flow, entropy, what, now); break;
      case Balance::skip: get<Skip>().feedback(flow, entropy, what); break;
      case Balance::oblivious:
      case Balance::flowlet:
      case Balance::single_path:
      case Balance::adaptive: break;
    }
  }

 private:
  using Any = std::variant<SinglePath, Oblivious, Bitmap, Mixed, Reps, Flowlet, UserBalance, Skip>;

  static Any make(std::uint32_t flows, const Options& options) {
    switch (options.balance) {
      case Balance::mixed: return Any(std::in_place_type<Mixed>, flows, options.paths, options.seed);
      case Balance::reps: return Any(std::in_place_type<Reps>, flows, options.paths, options.seed);
      case Balance::bitmap: return Any(std::in_place_type<Bitmap>, flows, options.paths, options.seed);
      case Balance::oblivious: return Any(std::in_place_type<Oblivious>, flows, options.paths, options.seed);
      case Balance::flowlet: return Any(std::in_place_type<Flowlet>, flows, options.seed, options.flowlet_gap_ps);
      case Balance::user: return Any(std::in_place_type<UserBalance>, flows, options);
      case Balance::skip: return Any(std::in_place_type<Skip>, flows, options.paths, options.seed);
      case Balance::single_path:
      case Balance::adaptive: break;
    }
    return Any(std::in_place_type<SinglePath>, options.seed);
  }

  template <class T>
  T& get() {
    return *std::get_if<T>(&chosen_);
  }

  Balance what_;
  Any chosen_;
};

}  // namespace railyard::packet
