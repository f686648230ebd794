"""A kind of work in one folder: a file that every accelerator gets in turn. Users install it as a package."""

from railyard_drill import kind, present, section

__all__ = ["kind", "present", "section"]
