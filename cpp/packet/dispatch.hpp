#pragma once

#include "packet/run.hpp"

namespace railyard::packet {

using Runner = Outcome(const NetworkColumns&, const TrafficColumns&, const Options&, const Derived&, const Heartbeat&);

/// One function a pair of transport and fabric, each in a source file of its own name: they take long to compile.
Runner run_uec_lossy;
Runner run_uec_pfc;
Runner run_rdma_lossy;
Runner run_rdma_pfc;
Runner run_uec_scheduled;
Runner run_rdma_scheduled;
Runner run_uec_credit;
Runner run_rdma_credit;
Runner run_eqds_lossy, run_ndp_lossy;

}  // namespace railyard::packet
