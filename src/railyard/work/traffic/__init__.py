"""Packets of given traffic over a given network, without a model of training."""
