"""Which devices of DRA drivers are which piece of hardware, by the UUIDs that drivers publish.

resource.k8s.io/v1: k8s.io/api/resource/v1/types.go. NVIDIA's driver publishes `uuid`, and of a part of a device (MIG)
`parentUUID`.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.devices.monitored import DraDevice
from leadsman.sources.cluster.object_metadata import MetadataFields

UUID_ATTRIBUTES = ("uuid", "parentUUID")
"""Without a domain, or with that of the driver."""


class _Attribute(Struct, frozen=True, gc=False):
    string: str = ""


class _PublishedDevice(Struct, frozen=True, gc=False):
    name: str
    attributes: Mapping[str, _Attribute] = {}


class _Pool(Struct, frozen=True, gc=False):
    name: str
    generation: int = 0


class _PublishedSpec(Struct, frozen=True, gc=False):
    driver: str
    pool: _Pool
    devices: tuple[_PublishedDevice, ...] = ()


class PublishedSlice(Struct, frozen=True, gc=False):
    """A ResourceSlice, of which only the names of its devices and their attributes are read."""

    metadata: MetadataFields
    spec: _PublishedSpec


def devices_by_uuid(slices: Iterable[PublishedSlice]) -> Mapping[str, Sequence[DraDevice]]:
    """UUID of a piece of hardware → the devices that are it or a part. Of a pool, the newest generation counts."""
    slices = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        pool = (each.spec.driver, each.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    devices: dict[str, set[DraDevice]] = {}
    for each in slices:
        driver, pool_name = each.spec.driver, each.spec.pool.name
        if each.spec.pool.generation == newest[driver, pool_name]:
            for device in each.spec.devices:
                for uuid in _uuids(device, driver):
                    devices.setdefault(uuid, set()).add(DraDevice(driver, pool_name, device.name))
    return {uuid: sorted(found) for uuid, found in devices.items()}


def _uuids(device: _PublishedDevice, driver: str) -> set[str]:
    keys = (key for name in UUID_ATTRIBUTES for key in (name, f"{driver}/{name}"))
    return {device.attributes[key].string for key in keys if key in device.attributes} - {""}
