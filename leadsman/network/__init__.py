"""Estimates round trips that were not measured: coordinates, and estimates with intervals.

Pure: numbers in, numbers out. `vivaldi` is the coordinate that each agent keeps of itself. `fitting` estimates every
pair from all measurements, in three steps: an ensemble of `embedding`s, `residual`s borrowed from similar nodes, and an
interval from the errors on pairs left out (`calibration`). Nothing here knows names, the store or the clock, and no
estimate says that a node can be reached.
"""
