"""What the cases of refusals.cases name."""

from tests.agreement import yard

from railyard.cluster.topology import LeafSpine, MultiSite
