"""Well-known names in a Hardware record, so that writers and readers agree. Units stand in the names.

Ratios are 0..1. Each is an instantaneous value or an average over the kernel's own ten seconds, never a counter.
A name that a node does not have is absent: unknown, not zero.
"""

CPU_PRESSURE = "pressure_cpu_waiting_ratio"
"""PSI: share of the last 10 s in which some task waited for a CPU. docs.kernel.org/accounting/psi.html"""
MEMORY_PRESSURE = "pressure_memory_waiting_ratio"
IO_PRESSURE = "pressure_io_waiting_ratio"
CPU_BUSY = "cpu_busy_ratio"
"""Share of all CPUs that was not idle since the last reading."""
LOAD_PER_CPU = "load1_per_cpu"
MEMORY_AVAILABLE = "memory_available_ratio"
"""MemAvailable / MemTotal."""
TEMPERATURE = "temperature_celsius"
"""The hottest sensor."""
