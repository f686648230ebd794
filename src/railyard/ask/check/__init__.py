"""Assertions about a scenario: what must hold of its run, of its network with any one part lost, of its switches."""
