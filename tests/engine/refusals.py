"""What the cases of refusals.cases name."""

import dataclasses

import numpy as np
from tests.engine.hand import Entity, Graph, Links, entities, lowered
from tests.engine.test_background import machine, on_links, running, took_s
from tests.engine.test_clusters import GIB, graph_of, transfer
from tests.engine.test_clusters import machine as machine_clusters
from tests.engine.test_joint import FLOW, MIB, jobs_of, placed, step
from tests.engine.test_joint import machine as machine_joint
from tests.engine.test_max_min import rates
from tests.engine.test_semantics import play
from tests.engine.test_tiers import tiers

from railyard import _core, engine
from railyard.cluster.fault import NicDown
from railyard.cluster.topology import Dragonfly
from railyard.engine.analytic import LinkUses, stretches
from railyard.engine.background import Bursts
from railyard.engine.lowering import LoweredGraph, core_of
from railyard.graph import Job, TaskGraph
