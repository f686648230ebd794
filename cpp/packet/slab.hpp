#pragma once

#include <cstddef>
#include <cstdint>

#include "core/big_vector.hpp"
#include "core/invariant.hpp"

namespace railyard::packet {

constexpr std::uint32_t kNone = 0xffffffffu;

/// An entropy for packets that all take one path.
constexpr std::uint16_t kOnePath = 0xffffu;

enum class Kind : std::uint8_t {
  data,     ///< Carries payload; may be trimmed to its header on the way.
  request,  ///< Asks the receiver for credit or an answer (RTS).
  ack,
  nack,
  pull,     ///< Grants credit.
  cnp,      ///< Congestion notification (RoCE).
  pause,    ///< Stops or lets go a link (PFC).
  credit,   ///< Link credit (InfiniBand) or a grant (scheduled fabrics).
};

/// What a packet carries and what is done to it on the way.
enum Flag : std::uint16_t {
  kMarked = 1,         ///< Congestion experienced (data), or echoed (ack, nack).
  kTrimmed = 2,        ///< Payload cut off.
  kAckRequested = 4,
  kRetransmission = 8,  ///< Of the packet, or (ack) of the packet acknowledged.
  kLastHop = 16,       ///< Trimmed at the last switch, or (nack) says so.
  kAnswersRequest = 64,
  kHeld = 128,         ///< A link has sent it again, or held it behind what it sent again.
  kStored = 256,       ///< A switch has waited until all of it was there (cut-through to a faster link).
  kGrants = 512,        ///< The answer is a pull as well.
};

/// A packet: exactly one cache line.
struct alignas(64) Packet {
  std::uint32_t flow;
  std::uint32_t key;          ///< Hash of flow and entropy: what switches choose paths by.
  std::uint32_t next;         ///< In the queue of a NIC or in the list of free packets.
  std::uint32_t link;         ///< The link it is being sent over.
  std::uint32_t destination;  ///< Host.
  std::uint16_t size;         ///< Bytes on the wire.
  std::uint16_t entropy;
  Kind kind;
  std::uint8_t klass;         ///< Traffic class.
  std::uint16_t flags;
  std::uint32_t ingress;      ///< The link by which it came to the switch; kNone at the host that sends it.
  std::uint32_t sequence;     ///< Of the packet, or of the packet that caused this one.
  std::uint32_t cumulative;   ///< Ack: the first sequence number not yet received.
  std::uint32_t reference;    ///< Ack: what bit 0 of the bitmap stands for.
  std::uint32_t following;    ///< Link chosen ahead of its arrival at a switch; kNone when not.
  std::uint64_t bitmap;       ///< Ack: received beyond the cumulative number.
  std::int64_t amount;        ///< Ack: bytes received; data, request: pull target; pull: credit granted (quanta).
};
static_assert(sizeof(Packet) == 64);

/// All packets, by index. A list of those that are free; none is ever given back to the system during a run.
class Slab {
 public:
  Packet& operator[](std::uint32_t index) { return packets_[index]; }
  const Packet& operator[](std::uint32_t index) const { return packets_[index]; }

  std::uint32_t acquire() {
    if (free_ == kNone) grow();
    const std::uint32_t index = free_;
    free_ = packets_[index].next;
    RAILYARD_INVARIANT(free_ == kNone || free_ < packets_.size());
    RAILYARD_CHECKED_ONLY(taken_[index] = true;)
    return index;
  }

  /// No packet is given back twice.
  void release(std::uint32_t index) {
    RAILYARD_INVARIANT(taken_[index]);
    RAILYARD_CHECKED_ONLY(taken_[index] = false;)
    packets_[index].next = free_;
    free_ = index;
  }

  std::size_t capacity() const { return packets_.size(); }
  void prefetch(std::uint32_t index) const { __builtin_prefetch(packets_.data() + index, 1); }

 private:
  void grow() {
    const std::size_t before = packets_.size();
    const std::size_t after = before == 0 ? 1024 : before + before / 2;
    packets_.resize(after);
    RAILYARD_CHECKED_ONLY(taken_.resize(after, true);)
    for (std::size_t index = after; index-- > before;) release(static_cast<std::uint32_t>(index));
  }

  RAILYARD_CHECKED_ONLY(std::vector<bool> taken_;)
  BigVector<Packet> packets_;
  std::uint32_t free_ = kNone;
};

}  // namespace railyard::packet
