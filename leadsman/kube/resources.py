"""Builds the paths of resources on the API server: /api/v1/…, /apis/<group>/<version>/…"""

from urllib.parse import quote

from msgspec import Struct


class Resource(Struct, frozen=True):
    """A resource of the API, by version and plural name.

    api_version: "v1" for the core, else "group/version".
    plural: its name in the path.
    """

    api_version: str
    plural: str

    @property
    def root(self) -> str:
        """Returns the path below which the API server serves the resource, and lists what it serves there."""
        return f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the path of one object, or of all. Parts are quoted, so that no name can change the path."""
        within = ("namespaces", namespace) if namespace else ()
        parts = (*within, self.plural, *filter(None, (name, subresource)))
        return "/".join((self.root, *(quote(part, safe="") for part in parts)))


PODS = Resource("v1", "pods")
NODES = Resource("v1", "nodes")
CORE_EVENTS = Resource("v1", "events")
EVENTS_V1 = Resource("events.k8s.io/v1", "events")
REPLICA_SETS = Resource("apps/v1", "replicasets")
JOBS = Resource("batch/v1", "jobs")
CONFIG_MAPS = Resource("v1", "configmaps")
LEASES = Resource("coordination.k8s.io/v1", "leases")
NAMESPACES = Resource("v1", "namespaces")
PERSISTENT_VOLUMES = Resource("v1", "persistentvolumes")
PERSISTENT_VOLUME_CLAIMS = Resource("v1", "persistentvolumeclaims")
RESOURCE_QUOTAS = Resource("v1", "resourcequotas")
POD_DISRUPTION_BUDGETS = Resource("policy/v1", "poddisruptionbudgets")
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "storageclasses")
CSI_NODES = Resource("storage.k8s.io/v1", "csinodes")
RESOURCE_SLICES = Resource("resource.k8s.io/v1", "resourceslices")
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Resource("resource.k8s.io/v1", "resourceclaimtemplates")
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "deviceclasses")
DEVICE_TAINT_RULES = Resource("resource.k8s.io/v1beta2", "devicetaintrules")
"""DeviceTaintRules are served from Kubernetes 1.36 on, behind a feature gate (KEP-5055)."""
