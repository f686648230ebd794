"""Formats of recorded work: one file each, whose record registers it; large readers lie in files of their own."""
