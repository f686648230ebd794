#include "railyard/packet/rate_controls.hpp"

namespace railyard::packet {

namespace {

template <class Any, std::size_t Which>
Any made(const Options& options, const Derived& derived, std::size_t flows) {
  return Any(std::in_place_index<Which>, options, derived, flows);
}

}  // namespace

RateControls::RateControls(const Options& options, const Derived& derived, std::size_t flows)
    : table_(options.rdma.control == RateControl::dcqcn ? made<Any, 1>(options, derived, flows)
                                                        : made<Any, 0>(options, derived, flows)) {
  switch (options.rdma.control) {
    case RateControl::line_rate: break;
    case RateControl::dcqcn: sees_departures_ = options.dcqcn.byte_counter != 0; break;
  }
}

}  // namespace railyard::packet
