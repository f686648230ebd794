"""The serving engine again, slow and plain: every iteration is a step.

Written from the documentation, in integers of 2^-16 ps like the core, so that results can be compared bit by bit.
It has no links and no tiers: those have closed forms and a fluid model in their own tests.
"""

from .reference import Reference as Reference
