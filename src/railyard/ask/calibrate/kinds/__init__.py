"""Kinds of measurements that `railyard calibrate runs` takes; a file here registers one."""
