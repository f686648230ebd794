#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "railyard/packet/balance.hpp"
#include "railyard/packet/least_loaded.hpp"
#include "railyard/packet/options.hpp"
#include "railyard/packet/port.hpp"
#include "railyard/packet/routing.hpp"
#include "railyard/packet/sender.hpp"
#include "railyard/packet/slab.hpp"
#include "railyard/packet/wheel.hpp"

namespace railyard::packet {

/// What an event's `what` says: two bits of kind, thirty of index.
enum class Event : std::uint32_t { arrival = 0, slot = 1, timer = 2, pacer = 3 };
constexpr std::uint32_t event(Event kind, std::uint32_t index) { return static_cast<std::uint32_t>(kind) << 30 | index; }

/// One run of the Ultra Ethernet transport over switches that trim. The rules are those of uet-htsim 40ccb05 (uec.cpp,
/// compositequeue.cpp); the program is not.
template <class Control, class Balancer>
class Engine {
 public:
  Engine(const NetworkColumns& network, const TrafficColumns& traffic, const Options& options, const Derived& derived);
  Outcome run(const Heartbeat& heartbeat);

 private:
  static constexpr std::size_t kAheadFar = 14, kAheadMiddle = 8, kAheadNear = 3;

  // events
  void look_ahead();
  void look_ahead_middle(const Due& due);
  void look_ahead_near(const Due& due) const;
  void prefetch_sender(std::uint32_t flow) const;
  void dispatch(const Due& due);
  void arrive(std::uint32_t index);
  void hop(std::uint32_t node, std::uint32_t index);
  void deliver(std::uint32_t host, std::uint32_t index);
  void on_timer(std::uint32_t flow);
  void on_pacer(std::uint32_t host);

  // interface
  bool nic_free(const Nic& nic) const { return !nic.slot && now_ >= nic.busy_until; }
  void nic_send(Nic& nic, std::uint32_t host, std::uint32_t index);
  void nic_control(std::uint32_t host, std::uint32_t index);
  void nic_first_control(Nic& nic, std::uint32_t host);
  bool nic_first_flow(Nic& nic, std::uint32_t host);
  void nic_slot(std::uint32_t host);
  void nic_keep_going(Nic& nic, std::uint32_t host);
  void nic_join(Nic& nic, std::uint32_t flow);

  // sender
  void start(std::uint32_t flow);
  bool may_send(const Sender& sender, std::uint32_t flow) const;
  std::int64_t next_size(const Sender& sender) const;
  std::uint32_t size_of(const Sender& sender, std::uint32_t sequence) const;
  void send_while_permitted(std::uint32_t flow);
  std::uint32_t emit(std::uint32_t flow);
  std::uint32_t data_packet(std::uint32_t flow, std::uint32_t sequence, std::int64_t size, std::uint8_t flags);
  void request(std::uint32_t flow);
  std::int64_t pull_target(const Sender& sender, std::uint32_t flow) const;
  void stop_speculating(Sender& sender);
  void arm_timer(std::uint32_t flow, Ps sent);
  void expire(std::uint32_t flow, std::uint32_t sequence);
  void queue_again(std::uint32_t flow, std::uint32_t sequence);
  void on_ack(const Packet& ack);
  Ps delay_of(Sender& sender, typename Control::State& state, const Packet& ack);
  void on_nack(const Packet& nack);
  void on_pull(const Packet& pull);
  void finish(std::uint32_t flow);
  void release_dependents(std::uint32_t flow);

  // receiver
  void on_data(std::uint32_t host, const Packet& packet);
  void on_trimmed(std::uint32_t host, const Packet& packet);
  void on_request(std::uint32_t host, const Packet& packet);
  void acknowledge(std::uint32_t host, const Packet& packet, bool from_here, std::uint8_t flags);
  void see_pull_target(std::uint32_t host, std::uint32_t flow, std::int64_t target);
  void ask_pull(std::uint32_t host, std::uint32_t flow);

  std::uint32_t control_packet(Kind kind, std::uint32_t flow, std::uint32_t destination, std::uint16_t entropy);
  std::uint32_t key_of(std::uint32_t flow, std::uint16_t entropy) const {
    return static_cast<std::uint32_t>(mix(key_seed_ ^ (std::uint64_t{flow} << 16 | entropy)) >> 32);
  }

  const NetworkColumns& network_;
  const TrafficColumns& traffic_;
  const Options& options_;
  const Derived& derived_;
  std::uint32_t hosts_;
  std::int64_t mss_;
  std::uint64_t key_seed_;
  NsccConstants constants_;
  Ps quantum_time_;
  Outcome outcome_;
  Slab slab_;
  Wheel wheel_;
  Routes routes_;
  Ports ports_;
  LeastLoaded least_loaded_;
  Balancer balancer_;
  WordArena sent_, received_;
  BigVector<Nic> nics_;
  BigVector<Sender> senders_;
  BigVector<typename Control::State> states_;
  BigVector<Receiver> receivers_;
  std::vector<Pacer> pacers_;
  std::vector<Oversubscription> congestion_;
  std::vector<std::uint32_t> adjustments_;
  std::vector<std::uint32_t> waits_;          ///< Dependencies of a flow that have not finished.
  std::vector<std::uint32_t> after_ptr_, after_;  ///< Flows that wait for a flow.
  Ps now_ = 0;
  std::uint32_t unfinished_ = 0;
};

}  // namespace railyard::packet
