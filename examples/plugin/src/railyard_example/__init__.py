"""A topology, a congestion control and a reader of traffic for Railyard."""

__version__ = "0.1.0"
