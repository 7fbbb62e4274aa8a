"""The ConfigMap by which a plan of moves is handed over. The right to create it is the right to move pods.

People write it (`leadsman plan apply`), and the controller's own re-balancing; how far the plan is stands in the
controller's ConfigMap `leadsman-replacement`. So each of the two has one writer.
"""

from msgspec.structs import replace

from controller.config_maps import VersionedConfigMap
from leadsman.kube.client import ApiClient
from leadsman.kube.names import MOVE_PLAN_CONFIG_MAP, MOVE_PLAN_KEY
from leadsman.planning.moves.move_plan import BadPlan, HandedOverPlan, MovePlan, PlanRequest, decode, encode


class MovePlanObject:
    """The one plan that is handed over."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._config_map = VersionedConfigMap(client, namespace, MOVE_PLAN_CONFIG_MAP, MOVE_PLAN_KEY)

    async def read(self) -> HandedOverPlan | None:
        """The plan; None: there is none. BadPlan, ApiError."""
        text = await self._config_map.read()
        return None if text is None else decode(text, HandedOverPlan)

    async def hand_over(self, plan: MovePlan) -> None:
        """Writes the plan in place of the one that was read. Conflict when somebody wrote since; BadPlan, ApiError."""
        await self._config_map.write(encode(HandedOverPlan(plan)).decode())

    async def ask(self, request: PlanRequest) -> HandedOverPlan:
        """Asks the controller to go on, pause or abort. BadPlan when there is no plan; Conflict, ApiError."""
        handed_over = await self.read()
        if handed_over is None:
            raise BadPlan("no plan is handed over")
        handed_over = replace(handed_over, request=request)
        await self._config_map.write(encode(handed_over).decode())
        return handed_over
