"""The inputs by which an extender would decide on a waiting pod, with what was promised to others of devices."""

import asyncio

from msgspec import structs

from leadsman.decision.inputs import DecisionInputs
from leadsman.sources.device_promises import READ_TIMEOUT_SECONDS, with_promises
from leadsman.sources.input_sources import InputSources
from leadsman.state import codec, keys
from leadsman.state.store import Store, StoreError


class PromisedInputs:
    """Reads the grants where devices are followed; call `current`."""

    def __init__(self, store: Store, sources: InputSources) -> None:
        self._store, self._sources = store, sources

    async def current(self) -> DecisionInputs:
        """The newest inputs. While etcd does not say what was promised, pods that depend on it are refused."""
        inputs = self._sources.current_inputs()
        if not inputs.devices.followed:
            return inputs
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                grants = (await self._store.read_prefix(keys.GRANTS_PREFIX)).items
            return with_promises(inputs, self._sources.devices, grants)
        except (StoreError, codec.BadRecord, TimeoutError) as error:
            problem = f"etcd does not say what other pods were promised of bandwidth and devices: {error}"
            return structs.replace(inputs, devices=structs.replace(inputs.devices, grants_problem=problem))
