"""Polls from Prometheus what dcgm-exporter, or our agents through NVML, say of each device."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from leadsman.cluster.devices.node_devices import (
    METRICS,
    ROW_REMAP_FAILURE,
    THROTTLE_REASONS,
    UNCORRECTABLE_ERRORS,
    XID,
    DeviceReading,
    DraDevice,
)
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.cluster.device_objects import ResourceSliceObject
from leadsman.sources.telemetry.polling import (
    POLL_INTERVAL_SECONDS,
    POLL_TIMEOUT_SECONDS,
    RETENTION_SECONDS,
    MetricUnavailable,
    PrometheusSource,
    Series,
    node_name,
)

# Which devices of DRA drivers are which piece of hardware, by the UUIDs that drivers publish.
#
# resource.k8s.io/v1: k8s.io/api/resource/v1/types.go. NVIDIA's driver publishes `uuid`, and of a part of a device
# (MIG) `parentUUID`.

UUID_ATTRIBUTES = ("uuid", "parentUUID")
"""Names of the attribute that holds a device's UUID, without a domain or with that of the driver."""


def devices_by_uuid(slices: Iterable[ResourceSliceObject]) -> Mapping[str, Sequence[DraDevice]]:
    """Maps each UUID to the devices that are this hardware or a part of it. Of a pool, the newest generation counts."""
    slices = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        pool = (each.spec.driver, each.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    devices: dict[str, set[DraDevice]] = {}
    for each in slices:
        driver, pool_name = each.spec.driver, each.spec.pool.name
        if each.spec.pool.generation == newest[driver, pool_name]:
            keys = [key for name in UUID_ATTRIBUTES for key in (name, f"{driver}/{name}")]
            for device in each.spec.devices:
                for uuid in {device.attributes[key].string or "" for key in keys if key in device.attributes} - {""}:
                    devices.setdefault(uuid, set()).add(DraDevice(driver, pool_name, device.name))
    return {uuid: sorted(found) for uuid, found in devices.items()}


AGENT_METRICS = {
    "leadsman_gpu_xid_errors": XID,
    "leadsman_gpu_row_remap_failure": ROW_REMAP_FAILURE,
    "leadsman_gpu_uncorrectable_errors": UNCORRECTABLE_ERRORS,
    "leadsman_gpu_clocks_event_reasons": THROTTLE_REASONS[-1],
}
"""The agents' names (agent/hardware/nvidia.py), and dcgm-exporter's for the same."""

QUERY = f'{{__name__=~"{"|".join(METRICS)}",UUID!=""}} or {{__name__=~"{"|".join(AGENT_METRICS)}"}}'

_HOST_LABEL = "Hostname"
"""dcgm-exporter's own, which is the node's name where its pod has NODE_NAME."""

log = logging.getLogger(__name__)


class DeviceMetricPoller:
    """Polls all devices by one query. `run` it as one task; readers take `current`, which is replaced, never altered.

    node_label: that names the node; `Hostname` where a series has none.
    current: UUID → what was read last; a device or metric that is missing keeps what was read of it, which ages.
    """

    def __init__(
        self,
        source: PrometheusSource,
        node_label: str,
        interval_seconds: float = POLL_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: Mapping[str, DeviceReading] = {}
        self._source, self._node_label = source, node_label
        self._interval_seconds, self._clock = interval_seconds, clock
        self._problem = ProblemLog(
            log,
            "Prometheus gives no health of devices; marks on devices stay as they are",
            "Prometheus gives the health of devices again",
        )

    @property
    def problem(self) -> str:
        """Says why the last poll read nothing; "" when it did."""
        return self._problem.text

    async def run(self) -> None:
        """Polls until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(self._interval_seconds)

    async def poll(self) -> None:
        """Asks Prometheus once. What fails is told by `problem`."""
        try:
            async with asyncio.timeout(POLL_TIMEOUT_SECONDS):
                series = await self._source.series("the health of devices", QUERY)
        except TimeoutError:
            self._problem.report(f"no answer within {POLL_TIMEOUT_SECONDS:g} s")
        except MetricUnavailable as error:
            self._problem.report(str(error))
        else:
            now = self._clock()
            kept = {uuid: each for uuid, each in self.current.items() if now - each.read_at < RETENTION_SECONDS}
            read = device_readings(series, self._node_label, now)
            self.current = {**kept, **{uuid: each.with_missing(kept.get(uuid)) for uuid, each in read.items()}}
            self._problem.clear()


def device_readings(series: Iterable[Series], node_label: str, now: float) -> Mapping[str, DeviceReading]:
    """Maps each UUID to its reading. A device has several series when its MIG instances do, or agent and exporter both
    give one: the largest value counts."""
    nodes: dict[str, str] = {}
    values: dict[str, dict[str, float]] = {}
    for each in series:
        labels = each.metric
        uuid = labels.get("UUID") or labels.get("uuid", "")
        node = node_name(labels.get(node_label) or labels.get(_HOST_LABEL, ""))
        value = _number(each.value[1])
        if uuid and node and value is not None:
            nodes[uuid] = node
            of_device = values.setdefault(uuid, {})
            name = labels.get("__name__", "")
            metric = AGENT_METRICS.get(name, name)
            of_device[metric] = max(value, of_device.get(metric, value))
    return {uuid: DeviceReading(node, values[uuid], now) for uuid, node in nodes.items()}


def _number(text: str) -> float | None:
    """Returns the number; None for what is no finite number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
