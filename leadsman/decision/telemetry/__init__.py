"""Applies telemetry policies, which are rules on nodes' metrics, to a pod as a filter and a score. Pure.

Names, operators and strategies are those of Telemetry Aware Scheduling's TASPolicy: its policies apply unchanged.
"""
