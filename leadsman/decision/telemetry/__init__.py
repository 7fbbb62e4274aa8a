"""Telemetry policies: rules on nodes' metrics, and the filter and the score that apply them to a pod. Pure.

Names, operators and strategies are those of Telemetry Aware Scheduling's TASPolicy: its policies apply unchanged.
"""
