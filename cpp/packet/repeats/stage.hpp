#pragma once

#include <cstdint>

#include "packet/repeats/memory.hpp"
#include "packet/wheel.hpp"

namespace railyard::packet {

/// What episodes ask of the engine that they run in.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  /// The flow begins as packets. `again`: though it has been sent before.
  virtual void send(std::uint32_t flow, bool again) = 0;
  virtual void dispatch(const Due& due) = 0;
  /// The next event of the context's wheel, if it is due before `until`.
  virtual bool next(Due& due, Ps until) = 0;

  /// Appends all that the future of a connection at rest depends on, times as ages; false: it is not at rest.
  virtual bool rest(std::uint32_t connection, Words& words) const = 0;
  /// The connection is as `rest` had it. Returns what follows its words.
  virtual const std::int64_t* put(std::uint32_t connection, const std::int64_t* words) = 0;

  /// From now on the connection's delays are kept, or no longer.
  virtual void trace(std::uint32_t connection, bool on) = 0;
  /// Those that have been kept; false: somebody asked for their mean.
  virtual bool traced(std::uint32_t connection, Delays& delays) const = 0;
  /// The connection has seen these delays.
  virtual void see(std::uint32_t connection, const Delays& delays) = 0;

  virtual std::int64_t kind(std::uint32_t link) const = 0;       ///< Links of one kind act alike.
  virtual std::uint64_t drawn(std::uint32_t link) const = 0;     ///< Random numbers and marks so far.
  virtual std::int64_t carried(std::uint32_t link) const = 0;    ///< Bytes.
  virtual void carry(std::uint32_t link, std::int64_t bytes) = 0;  ///< As many more have been carried.
  virtual std::int64_t depth(std::uint32_t link) = 0;            ///< Bytes in the queue now.
};

}  // namespace railyard::packet
