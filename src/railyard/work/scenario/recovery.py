"""The section `recovery`: what a job does after a death that its network cannot route around."""

from railyard.cluster.fault.recovery import Recovery
from railyard.work.scenario.section import Section, section_of

RecoverySection: type[Section] = section_of(Recovery, "RecoverySection")
