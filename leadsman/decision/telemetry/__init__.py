"""Telemetry policies: rules on nodes' metrics, and what they mean for a pod or a node. Pure.

Names, operators and strategies are those of Telemetry Aware Scheduling's TASPolicy: its policies apply unchanged.
"""
