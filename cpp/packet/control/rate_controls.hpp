#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/big_vector.hpp"
#include "packet/control/acknowledged.hpp"
#include "packet/options.hpp"

namespace railyard::packet {

/// The rate or window control of a run over the RDMA transport, with its state of every flow. A control is a class in a file
/// of its own with
///   struct State { double rate_bps; std::int64_t window_bytes; ... };  both rule; a window of 0 is none
///   X(const Options&, const Derived&)
///   open(State&, Ps now)   PRE: rate_bps is the interface's line rate, window_bytes the window of `RdmaOptions`
///   static Mechanism record()
/// of these what it needs:
///   on_ack(State&, const Acknowledged&), on_cnp(State&, Ps now), on_nack(State&, Ps now), on_timeout(State&, Ps now)
///   on_sent(State&, std::int64_t payload_bytes, Ps now), bool sees_acks(), bool sees_departures()
///   Ps next_timer(const State&) (0: none) and on_timer(State&, Ps now)
///   retune(const Options&)             other constants hold from now on
///   static constexpr bool kTelemetry   whether it reads what switches write into packets
/// and, at the end of the file, `inline const RateControl<X> kX;`, which puts it on the list.
/// WHY virtual and not a template of the transport: a flow's rate and window are copied to its queue pair, so most packets
/// ask no control at all, and the transport need not be compiled once for each of them.
class RateControls {
 public:
  /// What rules a flow: the first two members of every control's state.
  struct Ruling {
    double rate_bps;
    std::int64_t window_bytes;
  };
  /// What a control pays heed to; the transport does not call it for the rest.
  struct Heeds {
    bool acks = false, departures = false, timers = false;
  };
  using Make = std::unique_ptr<RateControls> (*)(const Options&, const Derived&, std::size_t flows);

  RateControls() = default;
  RateControls(const RateControls&) = delete;
  RateControls& operator=(const RateControls&) = delete;
  virtual ~RateControls() = default;

  virtual Ruling open(std::uint32_t flow, const Ruling& line, Ps now) = 0;
  virtual Ruling on_ack(std::uint32_t flow, const Acknowledged& ack) = 0;
  virtual Ruling on_cnp(std::uint32_t flow, Ps now) = 0;
  virtual Ruling on_nack(std::uint32_t flow, Ps now) = 0;
  virtual Ruling on_timeout(std::uint32_t flow, Ps now) = 0;
  virtual Ruling on_sent(std::uint32_t flow, std::int64_t payload_bytes, Ps now) = 0;
  virtual Ruling on_timer(std::uint32_t flow, Ps now) = 0;
  /// Other constants hold from now on; what flows have come to stays. Controls without `retune` go on as before.
  virtual void retune(const Options& options) = 0;

  /// When the control wants `on_timer`; 0: never.
  Ps next_timer(std::uint32_t flow) const { return heeds_.timers ? timer_of(flow) : 0; }
  bool sees_acks() const { return heeds_.acks; }
  bool sees_departures() const { return heeds_.departures; }

  /// Throws std::invalid_argument for a name that is not on the list.
  static std::unique_ptr<RateControls> of(const Options& options, const Derived& derived, std::size_t flows);
  /// Whether the run's control reads telemetry.
  static bool reads_telemetry(const Options& options);
  static void add(const std::string& name, Make make, bool telemetry);

 protected:
  virtual Ps timer_of(std::uint32_t flow) const = 0;
  Heeds heeds_;
};

namespace detail {

template <class Control>
class RateControlsBy final : public RateControls {
 public:
  using State = typename Control::State;

  RateControlsBy(const Options& options, const Derived& derived, std::size_t flows)
      : control_(options, derived), states_(flows) {
    heeds_.acks = requires(State& state, const Acknowledged& ack) { control_.on_ack(state, ack); };
    heeds_.departures = requires(State& state) { control_.on_sent(state, std::int64_t{0}, Ps{0}); };
    heeds_.timers = requires(State& state) { control_.on_timer(state, Ps{0}); };
    if constexpr (requires { control_.sees_acks(); }) heeds_.acks = control_.sees_acks();
    if constexpr (requires { control_.sees_departures(); }) heeds_.departures = control_.sees_departures();
  }

  Ruling open(std::uint32_t flow, const Ruling& line, Ps now) override {
    State& state = states_[flow];
    state.rate_bps = line.rate_bps;
    state.window_bytes = line.window_bytes;
    control_.open(state, now);
    return ruling(state);
  }
  Ruling on_ack(std::uint32_t flow, const Acknowledged& ack) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_ack(state, ack); }) control_.on_ack(state, ack);
    return ruling(state);
  }
  Ruling on_cnp(std::uint32_t flow, Ps now) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_cnp(state, now); }) control_.on_cnp(state, now);
    return ruling(state);
  }
  Ruling on_nack(std::uint32_t flow, Ps now) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_nack(state, now); }) control_.on_nack(state, now);
    return ruling(state);
  }
  Ruling on_timeout(std::uint32_t flow, Ps now) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_timeout(state, now); }) control_.on_timeout(state, now);
    return ruling(state);
  }
  Ruling on_sent(std::uint32_t flow, std::int64_t payload_bytes, Ps now) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_sent(state, payload_bytes, now); }) control_.on_sent(state, payload_bytes, now);
    return ruling(state);
  }
  Ruling on_timer(std::uint32_t flow, Ps now) override {
    State& state = states_[flow];
    if constexpr (requires { control_.on_timer(state, now); }) control_.on_timer(state, now);
    return ruling(state);
  }
  void retune(const Options& options) override {
    if constexpr (requires { control_.retune(options); }) control_.retune(options);
  }

 private:
  Ps timer_of(std::uint32_t flow) const override {
    if constexpr (requires { control_.next_timer(states_[flow]); }) return control_.next_timer(states_[flow]);
    else return 0;
  }
  static Ruling ruling(const State& state) { return {state.rate_bps, state.window_bytes}; }

  Control control_;
  BigVector<State> states_;
};

template <class Control>
constexpr bool reads_telemetry() {
  if constexpr (requires { Control::kTelemetry; }) return Control::kTelemetry;
  else return false;
}

}  // namespace detail

/// Puts a control on the list.
template <class Control>
struct RateControl {
  RateControl() {
    Mechanism record = Control::record();
    record.transport = "rdma";
    const RateControls::Make make = [](const Options& options, const Derived& derived,
                                       std::size_t flows) -> std::unique_ptr<RateControls> {
      return std::make_unique<detail::RateControlsBy<Control>>(options, derived, flows);
    };
    RateControls::add(record.name, make, detail::reads_telemetry<Control>());
    if (record.name != "user") Registration{std::move(record)};
  }
};

}  // namespace railyard::packet
