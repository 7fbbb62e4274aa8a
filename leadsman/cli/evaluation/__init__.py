"""Telemetry policies evaluated on files."""
