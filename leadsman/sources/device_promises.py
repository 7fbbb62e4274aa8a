"""What extenders promised pods of devices, as the grants in etcd have it, added to the inputs of a decision."""

import asyncio
import logging
from collections.abc import Collection, Iterable

from msgspec import structs

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.decision.devices.model import DeviceInputs, TentativeGrant
from leadsman.decision.inputs import DecisionInputs
from leadsman.sources.input_sources import DeviceSource
from leadsman.state import codec, keys
from leadsman.state.key_values import StoredItem
from leadsman.state.records import DeviceGrant
from leadsman.state.store import Store, StoreError

READ_TIMEOUT_SECONDS = 1.0
"""Of a read of the grants, which takes etcd a few ms."""

log = logging.getLogger(__name__)


async def promised_uids(store: Store) -> Collection[str]:
    """The pods that something was promised. None of them while etcd does not answer."""
    try:
        async with asyncio.timeout(READ_TIMEOUT_SECONDS):
            items = (await store.read_prefix(keys.GRANTS_PREFIX)).items
    except (StoreError, TimeoutError) as error:
        log.info("promises of devices to pods that have ended since count until they expire: %r", error)
        return ()
    return [item.key.removeprefix(keys.GRANTS_PREFIX) for item in items]


def with_promises(
    inputs: DecisionInputs, source: DeviceSource, grants: Iterable[StoredItem], before: float = float("inf")
) -> DecisionInputs:
    """The inputs with the devices now, and the grants of pods that are not settled. codec.BadRecord.

    before: grants count that were made before this revision of etcd.

    What is settled is looked up in the same moment as the devices: a pod counts in the one or in the other.
    """
    promised = []
    for item in grants:
        uid, grant = item.key.removeprefix(keys.GRANTS_PREFIX), codec.decode(DeviceGrant, item.value)
        if (grant.order or item.mod_revision) < before and not source.is_settled(uid):
            demand = DeviceDemand(
                grant.containers,
                grant.memory_bytes,
                grant.bandwidth_bits,
                allowed=grant.allowed,
                denied=grant.denied,
                single_numa=grant.single_numa,
            )
            promised.append(TentativeGrant(uid, demand, None if grant.nodes is None else frozenset(grant.nodes)))
    devices: DeviceInputs = structs.replace(source.current, grants=tuple(promised), grants_problem=source.problem())
    return structs.replace(inputs, devices=devices)
