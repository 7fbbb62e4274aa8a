"""What an object belongs to, by its owner references."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar


class Reference(Protocol):
    """An owner reference: leadsman.kube.objects.OwnerReference, or as few fields of it as a reader decodes."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


R = TypeVar("R", bound=Reference)


class Owner(NamedTuple):
    """What manages a pod; kind "Pod": nothing but the pod itself."""

    kind: str
    name: str


def controller_of(references: Iterable[R]) -> R | None:
    """The reference to the object's controller, of which it has at most one."""
    return next((each for each in references if each.controller), None)


def pod_owner(name: str, references: Iterable[Reference]) -> Owner:
    """The owner of the pod with this name: its controller, or the pod itself when it has none.

    A static pod's controller is its Node, which has the pod's name end in its own: `kube-proxy-edge-1`. The Node runs
    pods that have nothing else in common, so such a pod is its own, named the same on every node: `kube-proxy`.
    """
    controller = controller_of(references)
    if controller is None:
        return Owner("Pod", name)
    if controller.kind == "Node":
        return Owner("Pod", name.removesuffix(f"-{controller.name}"))
    return Owner(controller.kind, controller.name)
