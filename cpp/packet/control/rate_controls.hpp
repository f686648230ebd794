#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/big_vector.hpp"
#include "packet/control/dcqcn.hpp"
#include "packet/control/hpcc.hpp"
#include "packet/control/line_rate.hpp"
#include "packet/control/spectrum.hpp"
#include "packet/control/swift.hpp"
#include "packet/control/user_control.hpp"

namespace railyard::packet {

/// Controls of the RDMA transport are classes with
///   struct State { double rate_bps; std::int64_t window_bytes; ... };  both rule; a window of 0 is none
///   X(const Options&, const Derived&)
///   open(State&, Ps now)   PRE: rate_bps is the interface's line rate, window_bytes the window of `RdmaOptions`
///   on_ack(State&, const Acknowledged&), on_cnp(State&, Ps now), on_nack(State&, Ps now), on_timeout(State&, Ps now)
///   on_sent(State&, std::int64_t payload_bytes, Ps now)
///   Ps next_timer(const State&) (0: none), on_timer(State&, Ps now)

/// The rate or window control of a run and its state of every flow. One switch a call.
/// WHY not a template of the transport: a flow's rate and window are copied to its queue pair, so most packets ask no
/// control at all, and the transport need not be compiled once for each of them.
class RateControls {
 public:
  RateControls(const Options& options, const Derived& derived, std::size_t flows);

  /// What rules a flow: the first two members of every control's state.
  struct Ruling {
    double rate_bps;
    std::int64_t window_bytes;
  };

  /// Calls `call(control, state)` and returns what then rules the flow.
  template <class Call>
  Ruling with(std::uint32_t flow, Call&& call) {
    switch (table_.index()) {
      case 1: return on(std::get<1>(table_), flow, call);
      case 2: return on(std::get<2>(table_), flow, call);
      case 3: return on(std::get<3>(table_), flow, call);
      case 4: return on(std::get<4>(table_), flow, call);
      case 5: return on(std::get<5>(table_), flow, call);
      default: return on(std::get<0>(table_), flow, call);
    }
  }

  Ps next_timer(std::uint32_t flow) {
    Ps due = 0;
    with(flow, [&](auto& control, auto& state) { due = control.next_timer(state); });
    return due;
  }

  /// Whether acknowledgements and departures mean anything to the control.
  bool sees_acks() const { return sees_acks_; }
  bool sees_departures() const { return sees_departures_; }

 private:
  template <class Control>
  struct Table {
    Table(const Options& options, const Derived& derived, std::size_t flows) : control(options, derived), states(flows) {}
    Control control;
    BigVector<typename Control::State> states;
  };

  template <class Control, class Call>
  static Ruling on(Table<Control>& table, std::uint32_t flow, Call& call) {
    auto& state = table.states[flow];
    call(table.control, state);
    return {state.rate_bps, state.window_bytes};
  }

  using Any = std::variant<Table<LineRate>, Table<Dcqcn>, Table<Spectrum>, Table<Hpcc>, Table<Swift>, Table<UserControl>>;
  static Any make(const Options& options, const Derived& derived, std::size_t flows);

  Any table_;
  bool sees_acks_ = false, sees_departures_ = false;
};

}  // namespace railyard::packet
