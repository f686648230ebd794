"""`none`: nothing breaks but what the scenario names."""

from __future__ import annotations

from railyard.work.operate.failures.fault import FailureProfile, profiles

NONE = profiles.add("none", FailureProfile("none", "Nothing breaks but what the scenario names.", ()))
