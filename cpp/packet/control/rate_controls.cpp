#include "packet/control/rate_controls.hpp"

namespace railyard::packet {

RateControls::Any RateControls::make(const Options& options, const Derived& derived, std::size_t flows) {
  switch (options.rdma.control) {
    case RateControl::dcqcn: return Any(std::in_place_type<Table<Dcqcn>>, options, derived, flows);
    case RateControl::spectrum: return Any(std::in_place_type<Table<Spectrum>>, options, derived, flows);
    case RateControl::hpcc: return Any(std::in_place_type<Table<Hpcc>>, options, derived, flows);
    case RateControl::swift: return Any(std::in_place_type<Table<Swift>>, options, derived, flows);
    case RateControl::user: return Any(std::in_place_type<Table<UserControl>>, options, derived, flows);
    case RateControl::line_rate: break;
  }
  return Any(std::in_place_type<Table<LineRate>>, options, derived, flows);
}

RateControls::RateControls(const Options& options, const Derived& derived, std::size_t flows)
    : table_(make(options, derived, flows)) {
  switch (options.rdma.control) {
    case RateControl::line_rate: break;
    case RateControl::dcqcn: sees_departures_ = options.dcqcn.byte_counter != 0; break;
    case RateControl::spectrum:
    case RateControl::hpcc:
    case RateControl::swift: sees_acks_ = true; break;
    case RateControl::user:
      sees_acks_ = options.user_control.on_ack != 0;
      sees_departures_ = options.user_control.on_sent != 0;
      break;
  }
}

}  // namespace railyard::packet
