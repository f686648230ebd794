// The state of one serving run. Private to the core: everybody else uses serving::Simulation.
#pragma once

#include <deque>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "serving/cost.hpp"
#include "serving/gaps.hpp"
#include "serving/kv_cache.hpp"
#include "serving/simulation.hpp"
#include "serving/transfers.hpp"

namespace railyard::serving {

using Slot = std::uint32_t;
using ReplicaId = std::uint32_t;
inline constexpr std::uint32_t kNobody = UINT32_MAX;

/// A request that has arrived and not left.
struct Request {
  enum class Where : std::uint8_t { nowhere, waiting, running, loading, sending };

  std::int64_t id = 0, input = 0, output = 0, session = -1, priority = 0;
  Ps arrival = 0;
  Ps joined_queue = 0;  ///< When it last joined a queue; preemption leaves it as it is. Not the reported queueing time.
  std::int64_t computed = 0;   ///< Tokens whose keys and values are there, those of an iteration under way included.
  std::int64_t generated = 0;  ///< Output tokens so far.
  std::int64_t blocks = 0;     ///< Private ones that it holds; units come on top.
  std::int64_t pending = 0;    ///< Its part of Replica::pending_tokens.
  std::vector<std::uint64_t> chain;
  std::vector<std::uint32_t> units;
  std::vector<std::uint32_t> lent;  ///< Units of another replica, held there while they are read ...
  ReplicaId giver = kNobody;        ///< ... which is this one.
  std::size_t published = 0;  ///< Hashes of the chain that were offered to the cache.
  Fine last_token = 0, network = 0, network_prefill = 0;
  Fine iterated = 0;  ///< End of the latest iteration that it was part of.
  ReplicaId replica = kNobody;  ///< That has it now.
  ReplicaId prefiller = kNobody, decoder = kNobody;
  ReplicaId aim = kNobody;  ///< Where its cache is on its way to.
  std::uint32_t turn = 0;  ///< Which of the ways to the decoder.
  Ps admitted = -1, prefill_start = -1, first_token = -1, transfer_start = -1, transfer_end = -1;
  std::int64_t cached = 0, loaded = 0, moved = 0;
  std::int32_t preemptions = 0, requeued = 0;
  std::uint32_t in_flight = 0;  ///< Iterations under way that it is part of.
  std::uint32_t stamp = 0;      ///< Events with another stamp are void.
  std::uint32_t flow = kNoFlow;
  double sent = 0;  ///< Bytes that flow, or have flowed, before the prefill was over.
  std::int64_t swapped_bytes = 0;
  Ps load_ready = 0;             ///< When what comes from the host is there.
  std::int64_t load_target = 0;  ///< Tokens that will be there once loading is over ...
  std::int64_t load_host = 0;    ///< ... of which so many come from the host.
  std::int64_t settled = -1;     ///< With so many units in the replica's memory, loading more was settled; -1: open.
  Where where = Where::nowhere;
  bool arrived = false;  ///< Its cache has come from where it was prefilled, and has no blocks here yet.
  std::int32_t taking = -1;  ///< Schedules until it may run on the cache that came, for which it has blocks; -1: none came.
  std::int64_t emitted = 0;   ///< Tokens that came out of its latest iteration.
  std::int64_t refused = 0;   ///< Guesses of its latest iteration that were not accepted.
  bool chunk = false;  ///< Its latest iteration left something of its prompt, so that nothing was guessed after it.

  /// Tokens that must have been computed for the next one to come out.
  std::int64_t target() const { return input + generated; }
  bool decodes() const { return generated > 0 && target() - computed == 1; }
};

struct Item {
  Slot slot;
  std::int64_t tokens;
  bool emits;   ///< A token comes out at the end ...
  bool decode;  ///< ... and one had come out before.
  std::int64_t guesses = 0;    ///< Of `tokens`, those after the last one that is known.
  std::int64_t admitted = -1;  ///< Tokens that were computed when it was admitted to this iteration; -1: it ran before.
};

/// A request that has ended, which a schedule made ahead does not know: its guesses ended it earlier than was sure.
struct Ended {
  std::int64_t request;
  std::size_t place;          ///< Of those that run on, so many are in front of it.
  std::int64_t computed;      ///< With all guesses, ...
  std::int64_t blocks;        ///< ... and the blocks that it had.
  std::int64_t tokens = 0;    ///< That it takes in one more iteration.
};

/// An iteration under way, or a run of them that are alike.
struct Batch {
  std::vector<Item> items;
  std::vector<Ended> ended;  ///< Computed once more, for nothing.
  std::vector<std::int64_t> given_way;  ///< Of a logged replica: requests preempted since the iteration before.
  Load load;
  Fine start = 0, end = 0;
  Fine slowest = 0;          ///< Time of the slowest stage.
  Fine other = 0;        ///< Swapping and drafts, which the law of an iteration does not have; none in a run of them.
  Fine slower = 0;       ///< That each iteration takes longer, because transfers load the replica's NICs: when it began ...
  Fine slower_now = 0;   ///< ... the last one at present ...
  Fine slower_last = 0;  ///< ... and in all, as the transfers came and went.
  Fine together = 0;     ///< That all in lockstep take, waiting for one another; 0: it is alone ...
  Fine joint = 0;        ///< ... and of it, the collectives of all their tokens.
  std::int64_t repeats = 1;  ///< Iterations of the run.
  std::int64_t applied = 0;  ///< Of them, already written into the requests.
  bool empty() const { return items.empty() && ended.empty(); }
};

/// What routers read of a replica. WHY not in it: they read all replicas for every request.
struct Door {
  std::int64_t requests = 0;        ///< That it has.
  std::int64_t pending_tokens = 0;  ///< Of prompts, not yet computed.
  std::uint32_t pool = 0;
  bool open = true;  ///< Requests may come.

  /// Requests count before tokens.
  i128 load() const { return static_cast<i128>(requests) << 64 | static_cast<std::uint64_t>(pending_tokens); }
};

struct Replica {
  enum class Mode : std::uint8_t { up, draining, leaving, down, starting };

  std::uint32_t pool = 0;
  Mode mode = Mode::up;
  bool dirty = false;
  std::deque<Slot> waiting;   ///< Those in front whose cache came and has blocks.
  std::vector<Slot> running;  ///< In the order of admission.
  std::vector<Batch> flight;  ///< In the order in which they end, at most one a stage.
  std::vector<Batch> spare;
  KvCache cache{0, 0};
  LruSet host;
  std::uint32_t turn = 0;                 ///< Of its next transfer, among the ways that it has to each other replica.
  std::int64_t sending = 0, loading = 0;  ///< Requests that hold blocks and are neither waiting nor running.
  std::int64_t readers = 0;               ///< Flows to other replicas that read what is in its memory.
  std::int64_t coming = 0;                ///< Requests whose cache is on its way to it.
  std::int64_t swapped_bytes = 0;
  Fine clock = 0;     ///< When the first stage is free.
  Fine last_end = 0;  ///< Of the latest iteration.
  Fine channel_free = 0, store_free = 0;  ///< When its way to host memory, to the store, is free.
  std::uint32_t stamp = 0;
  Ps mode_since = 0;
  Ps down_until = 0;  ///< At least.
  Ps away = 0;        ///< How long it will be down once it is drained.
  bool returns = false;  ///< It is away because it failed, and starts by itself when that is over.
  LoadFrom load = LoadFrom::none;   ///< How it gets its weights at its next start.
  std::uint32_t weights = kNoFlow;  ///< On their way to it ...
  ReplicaId source = kNobody;       ///< ... from this one.
  Ps load_since = 0;
  std::uint32_t write_way = kNoWay, write_flow = kNoFlow;  ///< To the store.
  std::vector<std::uint64_t> writing, to_write;            ///< Units on their way there, and those that follow them.
  bool logged = false;
  std::vector<std::int64_t> given_way;  ///< Of a logged one: requests preempted since the latest iteration began.
  double own_rate = 0;  ///< That its collectives have over the NICs while they send; without transfers, the usual one.
  std::int64_t own_tokens = -1, own_decodes = -1;  ///< Of the iterations that its present demand was found for.
  // totals
  Fine slowed = 0;
  std::int64_t loads = 0;
  Ps load_ps = 0;
  Fine busy = 0;
  Ps up_ps = 0;
  std::int64_t iterations = 0, input_tokens = 0, output_tokens = 0, kv_peak = 0, cached_tokens = 0, loaded_tokens = 0;
  std::int64_t moved_tokens = 0;
  std::int64_t preemptions = 0, tokens = 0;
  i128 kv_tokens = 0, pairs = 0;
  Fine extra = 0;      ///< That the next iteration takes longer: swapping.
  bool again = false;  ///< Something was preempted: the next iteration must look at the queue anew.
  bool evicted = false;  ///< Something was evicted after the queue was looked at: of its own prefix it may want less now.
  // What a schedule that is made ahead does not know: who came later than `horizon`, what came free since.
  Ps horizon = kNever;
  std::int64_t freed_places = 0, freed_blocks = 0;
  std::vector<Ended> ended;
  bool blind() const { return horizon != kNever; }
  std::int64_t available() const { return cache.available() - freed_blocks; }
};

class Simulation::State {
 public:
  State(const Deployment& deployment, const Options& options);

  void feed(const RequestColumns& requests);
  void run(bool last, const Poll& poll);

  Finished finished;
  bool overloaded = false;
  Ps now = 0;
  std::uint64_t events = 0;
  ReplicaTotals totals() const;
  IterationLog iteration_log;
  Gaps gaps;
  Transfers transfers;

 private:
  /// What an event is about; at one time they come in this order, arrivals first of all.
  enum class Topic : std::uint32_t { outage, tick, started, ready, flowed, background, landed, loaded, iterated, entry, rested };
  struct Due {
    Ps time;
    Topic topic;
    std::uint32_t target, stamp;
    std::int64_t order;  ///< Among those of one topic: the number of the replica or of the request (not of its slot).
    bool operator<(const Due& other) const {  // for a heap with the earliest on top
      if (time != other.time) return time > other.time;
      if (topic != other.topic) return topic > other.topic;
      return order != other.order ? order > other.order : stamp > other.stamp;
    }
  };
  struct PoolState {
    PoolSpec spec;
    Cost cost;
    ReplicaId first = 0, end = 0;
    std::int64_t share_q32 = 0, draft = 0;
    std::vector<std::uint64_t> accept_below;  ///< 2^64 x acceptance^k.
    Ps low_since = -1;
  };

  /// Another replica that has the first units of a prefix, and the way from there.
  struct Giver {
    ReplicaId id = kNobody;
    std::size_t units = 0;
    std::uint32_t way = kNoWay;
  };
  /// Units of a prefix that come from elsewhere, because that is faster than to compute them.
  struct Fetch {
    std::size_t hits = 0, upper = 0, top = 0;  ///< Here; with what the host has; with what is farther away.
    Fine host_end = 0, store_end = 0;
    Ps gain = 0;                ///< Of the last part: what computing it would take longer.
    std::uint32_t way = kNoWay;
    ReplicaId giver = kNobody;  ///< That has the last part; nobody: the store.
  };

  // run.cpp: the loop, requests come and go
  bool step(bool last);
  void send();
  void process(const Due& due);
  void push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp = 0);
  void push(Ps time, Topic topic, std::uint32_t target, std::uint32_t stamp, std::int64_t order);
  void arrive(std::size_t row);
  Slot new_slot();
  void leave(Slot slot, Status status);
  void enqueue(Slot slot, ReplicaId replica, bool front);
  void unqueue(Slot slot);
  void set_pending(Request& request, std::int64_t tokens);
  bool fits(const Request& request, const PoolSpec& pool) const;
  bool fits_somewhere(const Request& request) const;
  void watch_overload();
  void finish_rest();
  void touch(ReplicaId replica);
  void place(Request& request, Request::Where where);
  bool nothing_left() const { return active_ == 0; }

  // routing.cpp
  void route(Slot slot);
  ReplicaId choose(const Request& request, const RouterSpec& router, std::span<const ReplicaId> from, std::uint64_t stream);
  ReplicaId choose_prefix(const Request& request, const RouterSpec& router, std::span<const ReplicaId> from);
  double price(const Request& request, const RouterSpec& router, ReplicaId id, std::size_t own);
  bool less_loaded(ReplicaId a, ReplicaId b) const;
  ReplicaId least_loaded(std::span<const ReplicaId> some) const;
  void route_backlog();

  // schedule.cpp: an iteration is put together
  void schedule(ReplicaId id);
  void schedule_together(ReplicaId id);
  Batch put_together(ReplicaId id);
  void form(ReplicaId id, Batch& batch);
  bool see_all(Replica& replica);
  void add_running(ReplicaId id, Batch& batch, std::int64_t& budget, bool prefills, bool decodes);
  void add_ended(ReplicaId id, std::size_t place, Batch& batch, std::int64_t& budget);
  void add_waiting(ReplicaId id, Batch& batch, std::int64_t& budget);
  bool admit(ReplicaId id, std::size_t at, Batch& batch, std::int64_t& budget);
  bool take_arrived(ReplicaId id, std::size_t at);
  std::int64_t reserve(const Replica& replica) const;
  std::size_t holders(const Replica& replica) const;
  bool make_room(ReplicaId id, std::size_t& place, std::int64_t tokens, Batch& batch, std::int64_t& budget);
  void preempt(ReplicaId id, std::size_t place);
  std::int64_t wanted(ReplicaId id, const Request& request, std::int64_t from, std::int64_t budget) const;
  std::int64_t wanted_at_first(ReplicaId id, const Request& request, const Batch& batch, std::int64_t from,
                               std::int64_t budget) const;
  bool alone(const Replica& replica) const;
  bool busy(const Replica& replica, const Request& request) const;
  bool goes_before(const Request& a, const Request& b) const;
  void queue_up(ReplicaId id, Slot slot, bool front);
  std::size_t victim(const Replica& replica, std::size_t place, const Batch& batch) const;
  void take_back(Slot slot, Batch& batch, std::int64_t& budget);
  bool reclaim(ReplicaId id);
  void add_item(ReplicaId id, Slot slot, std::int64_t tokens, Batch& batch, bool admitted = false);
  void publish(Replica& replica, Request& request, std::int64_t late = 0);
  std::int64_t late(const Replica& replica, const Request& request) const;
  void release(ReplicaId id, Request& request);
  void take_blocks(Replica& replica, std::int64_t count);
  std::int64_t missing_blocks(const Replica& replica, const Request& request, std::int64_t tokens) const;

  // iterate.cpp: iterations run and end
  void launch(ReplicaId id, Batch&& batch);
  std::int64_t run_length(const Replica& replica, const Batch& batch) const;
  bool learns(const Replica& replica) const;
  std::int64_t until_published(const Replica& replica, const Request& request) const;
  std::int64_t run_within_blocks(const Replica& replica, const Batch& batch, std::int64_t limit) const;
  void interrupt(ReplicaId id);
  void sync(ReplicaId id);
  std::int64_t ended_iterations(const Replica& replica, const Batch& batch) const;
  void advance(ReplicaId id, Batch& batch, std::int64_t count);
  std::int64_t decode_more(Replica& replica, const Batch& batch, std::int64_t count);
  void account(ReplicaId id, Batch& batch, std::int64_t count);
  void log(ReplicaId id, const Batch& batch, Fine begin, Fine end, std::int64_t count);
  void end_iteration(ReplicaId id);
  void emit(ReplicaId id, const Batch& batch, const Item& item);
  Fine network_of(const PoolState& pool, const Request& request, const Batch& batch) const;
  std::int64_t accepted(const PoolState& pool, const Request& request, const Item& item) const;
  void count_run_gaps(const Cost& cost, const Batch& batch, std::int64_t from, std::int64_t to);
  Fine end_of(const Replica& replica, const Batch& batch, std::int64_t count) const;

  // nic_sharing.cpp: collectives of the replicas while transfers use the same NICs
  Fine slower(ReplicaId id, std::int64_t tokens) const;
  double usual_rate(ReplicaId id) const;
  void ask(ReplicaId id, const Batch& batch, Fine time);
  void rest(ReplicaId id);
  void settle_contention();
  void retime(ReplicaId id);
  Fine plain_last(const Replica& replica, const Batch& batch) const;

  // moving.cpp: keys and values travel
  void open_transfer(Slot slot);
  void close_transfer(Slot slot);
  void sent(Slot slot, Ps latency);
  void landed(Slot slot);
  void restart(Slot slot);
  void set_aim(Request& request, ReplicaId target);
  void redirect(ReplicaId lost);
  void background(std::uint32_t row, bool over);
  void retry_stranded();
  void flow_ended(std::uint32_t flow);
  double bytes_of(const Request& request) const;
  void choose_decoder(Request& request);
  std::uint32_t way_of(const Request& request) const;

  // fetching.cpp: keys and values come up from lower tiers and over from other replicas
  enum class Loading : std::uint8_t { no, begun, no_room };
  bool asks_tiers(const Replica& replica, const Request& request) const;
  Loading try_tiers(ReplicaId id, Slot slot, std::size_t hits);
  void plan_host(ReplicaId id, const Request& request, std::size_t most, Fetch& plan) const;
  void plan_store(ReplicaId id, const Request& request, std::size_t most, Fetch& plan);
  void plan_move(ReplicaId id, const Request& request, Fetch& plan);
  void fetch(ReplicaId id, Slot slot, const Fetch& plan);
  void loaded(Slot slot);
  void keep(Replica& replica, std::uint64_t hash);
  void write_more(ReplicaId id);
  void written(ReplicaId id);
  void lend(ReplicaId giver, Request& request, std::span<const std::uint64_t> hashes);
  void give_back(Request& request);
  void abandon(ReplicaId giver);
  std::size_t held_by(ReplicaId id, const Request& request);
  void find_holders(const Request& request, std::span<const ReplicaId> from);
  Giver giver_for(ReplicaId id, std::size_t own) const;
  std::int64_t tokens_of(std::size_t units) const { return static_cast<std::int64_t>(units) * deployment_.hash_tokens; }
  std::size_t most_units(const Request& request) const;
  Ps recompute_time(const PoolState& pool, std::int64_t from, std::int64_t to) const;

  // scaling.cpp: replicas come and go
  void outage(std::uint32_t row, bool back);
  void tick(std::uint32_t pool);
  void start(ReplicaId id);
  void scale_up(ReplicaId begin, ReplicaId end, std::int64_t count, const Autoscale& rule);
  LoadFrom load_of(std::size_t outage) const;
  void scale_down(ReplicaId begin, ReplicaId end, std::int64_t count);
  void set_mode(ReplicaId id, Replica::Mode mode);
  void take_down(ReplicaId id);
  void scatter(ReplicaId id);
  void if_empty(ReplicaId id);

  // starting.cpp: weights are loaded
  void begin_start(ReplicaId id);
  void load_weights(ReplicaId id);
  void weights_there(ReplicaId id);
  void stop_loading(ReplicaId id);
  void leave_source(ReplicaId id);

  const PoolState& pool_of(ReplicaId id) const { return pools_[replicas_[id].pool]; }

  Deployment deployment_;
  Options options_;
  std::vector<PoolState> pools_;
  std::vector<Replica> replicas_;
  std::vector<Door> doors_;  ///< By replica.
  std::vector<ReplicaId> front_, back_;  ///< That prefill; that take over from them.
  std::vector<Batch> side_by_side_;      ///< Scratch: of replicas in lockstep.
  std::vector<ReplicaId> open_;          ///< Scratch: those of a list that accept requests.
  std::vector<Giver> holders_;           ///< Scratch: who has the beginning of a prefix, the longest first.
  std::vector<Request> requests_;
  std::vector<Slot> free_;
  std::deque<Slot> backlog_;  ///< No replica is up.
  std::priority_queue<Due> due_;
  std::int64_t waking_ = 0;   ///< Events in `due_` other than looks of the autoscaler.
  std::vector<ReplicaId> dirty_;
  LruSet store_;
  std::deque<Slot> stranded_;  ///< Prefilled, and no replica is up that decodes.
  std::vector<std::uint32_t> background_;  ///< Flow of each row.
  bool last_ = false;
  std::uint64_t turn_[2] = {0, 0};
  // requests fed
  std::vector<std::int64_t> arrival_, block_ptr_, session_;
  std::vector<std::int32_t> input_, output_, priority_;
  std::vector<std::uint64_t> block_hash_;
  std::size_t next_ = 0;
  std::int64_t fed_ = 0, active_ = 0;
  std::int64_t free_users_ = 0;  ///< Of a closed loop.
  Ps latest_ = 0;  ///< Arrival of the last one fed.
  std::int64_t waiting_ = 0;  ///< Requests that wait for a replica or in one.
  // overload
  std::int64_t watch_arrivals_ = 0, watch_waiting_ = 0;
  int watch_grown_ = 0;
};

}  // namespace railyard::serving
