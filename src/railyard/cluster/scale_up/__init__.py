"""Scale-up fabrics: what joins the accelerators of one domain, one file each."""

from __future__ import annotations

from railyard.cluster.scale_up.fabric import ScaleUpFabric, ScaleUpSpec, scale_ups

__all__ = ["ScaleUpFabric", "ScaleUpSpec", "scale_ups"]
