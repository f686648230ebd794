#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "packet/context.hpp"
#include "packet/repeats/memory.hpp"
#include "packet/repeats/stage.hpp"
#include "packet/repeats/ways.hpp"

namespace railyard::packet {

/// Traffic that repeats itself, not simulated again. Exact: no time, count or byte differs.
///
/// An episode is a set of flows that share hosts or links with one another and with no other flow that is under way, from
/// the first start until the last acknowledgement. Flows that come join it, or join several to one. Nothing but the
/// following decides what happens in it: when its flows begin and how large they are; the kinds of their links and in which
/// order events of one time come, which is that of the links' numbers; and how hosts and connections were left. These are
/// the label of each start, with times since the episode began and parts of the network by the order in which they come.
/// Random numbers belong to links: where a queue draws one, nobody follows.
///
/// Labels lead through a tree (`Node`). The first episode of its kind is simulated as packets, and what it does is noted. One
/// whose labels are known sends no packets: its flows end when those before did, and it leaves hosts, connections and links
/// as they did. Where a flow joins that is not known, the episode is simulated from its start until now, on its own, from
/// the state in which the network still is; then it goes on as packets. One of a hundred known episodes is simulated all the same
/// and compared.
class Episodes final : public Listener {
 public:
  Episodes(Context& context, Stage& stage);

  /// Whether enough of the flows have one way each: others never repeat anything.
  static bool worth(const Context& context);

  /// Whether nothing is followed any more: every flow is packets until the end.
  bool over() const { return !trying_ && following_ == 0; }

  /// Of the engine's own events, those with this bit in their index are for `on_event`.
  static constexpr std::uint32_t kEvent = 1u << 28;

  void start(std::uint32_t flow);
  bool heard(std::uint32_t flow, std::uint8_t at, Ps now) override;
  void on_event(std::uint32_t index);

  /// A row of samples has been taken: what of it is of links whose packets are not there is filled in at the end.
  void sampled();
  /// The run is over.
  void finish();

 private:
  enum What : std::uint32_t { kNow, kLate, kEnded };
  static constexpr std::size_t kMostInputs = 4096;
  static constexpr std::uint64_t kCheckEvery = 100;
  static constexpr std::uint64_t kTrials = 2048, kLeastShare = 16;

  /// A flow of an episode.
  struct Input {
    std::uint64_t order;  ///< In the whole run.
    Ps time;
    std::uint32_t flow;
    Words own;    ///< Its size, and how hosts and connection are where it is their first.
    Words label;
  };

  struct Episode {
    Ps start = 0;
    std::uint32_t unfinished = 0;
    bool there = false;
    bool packets = false;   ///< Simulated; else it follows what is known.
    bool recorded = true;
    bool checked = false;
    std::uint32_t node = 0;  ///< kNone: not known.
    std::size_t told = 0;    ///< Of the node's endings.
    Ps wake_at = -1;
    bool wake_late = false;
    std::vector<Input> inputs;
    std::vector<std::uint32_t> parts, sorted, connections;
  };

  /// A sample that is missing: in which slot of the table, of which part of the episode, how long after its beginning.
  struct Gap {
    std::size_t slot;
    std::uint32_t number;
    Ps after;
  };

  /// Samples that are missing of episodes at one node, and the flows of one of them.
  struct Gaps {
    Ps start = 0;
    std::vector<Input> inputs;
    std::vector<Gap> gaps;
  };

  // Who is concerned.
  std::uint32_t meet(const Way& way);
  std::uint32_t open();
  std::uint32_t join(const Way& way);
  void release(std::uint32_t id);
  void enter(std::uint32_t id, const Way& way, Input* input);
  bool describe(std::uint32_t id, const Way& way, Input& input) const;
  bool rest(std::uint32_t host, Words& words) const;

  // The tree.
  std::uint32_t branch(std::uint32_t node, const Input& input, const Episode& episode, bool make);
  void arrive(std::uint32_t id, std::uint32_t node);
  void leave(std::uint32_t id);
  void call(Node& node);

  // As packets.
  void proceed(std::uint32_t id);
  void play(std::uint32_t id, std::uint32_t limit, std::size_t inputs);
  void forget(std::uint32_t id);
  void act(const Due& due, bool again);
  void note(std::uint32_t id, const Ending& ending);
  bool drawn(const Episode& episode) const;
  void remember(std::uint32_t id);
  bool count(const Episode& episode, Left& left);

  // Without packets.
  void follow(std::uint32_t id, bool late);
  void wake(std::uint32_t id, Ps at, bool late);
  void restore(std::uint32_t id);
  void conclude(std::uint32_t id);
  const std::int64_t* put_host(std::uint32_t host, const std::int64_t* words);
  void fill(Gaps& missing);
  void differs(Ps by);

  Context& context_;
  Stage& stage_;
  Ways ways_;
  Repeats& totals_;
  std::deque<Episode> episodes_;
  std::vector<std::uint32_t> free_;
  std::deque<Node> nodes_;
  std::vector<std::uint32_t> owner_, number_;  ///< By part: the episode it is in, and its number there.
  std::vector<std::int64_t> carried_;          ///< By link, when its episode came to it.
  std::vector<std::uint64_t> drawn_;
  std::vector<std::uint32_t> place_;           ///< By flow: which of its episode's.
  std::vector<std::uint32_t> found_;
  std::map<std::uint32_t, Gaps> missing_;
  std::uint64_t order_ = 0;
  std::uint32_t following_ = 0;  ///< Episodes without packets.
  bool trying_ = true, filling_ = false;
};

}  // namespace railyard::packet
