"""Stores the objects of a fake API server: plain dicts by path, a log of changes, selectors and patches. No I/O."""

import copy
import datetime
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Object = dict[str, Any]

MAX_ANNOTATIONS_BYTES = 256 << 10
"""Keys and values of one object together: apimachinery pkg/api/validation, TotalAnnotationSizeLimitB."""


class ObjectPath(NamedTuple):
    """The parts of a path such as /apis/apps/v1/namespaces/web/replicasets/front/status.

    collection: "/apis/apps/v1/replicasets" here.
    namespace: "" for all namespaces, or where objects have none.
    name: "" for the whole collection.
    subresource: "status" here; "" for the object itself.
    """

    collection: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> "ObjectPath":
        return self._replace(subresource="")

    def contains(self, other: "ObjectPath") -> bool:
        return self.collection == other.collection and self.namespace in ("", other.namespace)


class LoggedChange(NamedTuple):
    """One change of an object.

    before: None: the object was added.
    after: None: the object was deleted.
    last_state: the object with this change's resourceVersion, also when it was deleted.
    """

    revision: int
    path: ObjectPath
    before: Object | None
    after: Object | None
    last_state: Object


class ApiStatusError(Exception):
    """Refuses a request as the API server does, with HTTP status, Kubernetes' reason and a message."""

    def __init__(self, status: int, reason: str, message: str):
        super().__init__(message)
        self.status, self.reason = status, reason


def parse_path(path: str) -> ObjectPath:
    """Splits a path into its parts. ApiStatusError 404 when it is not a path of an API."""
    parts = path.strip("/").split("/")
    root = 2 if parts[0] == "api" else 3
    if parts[0] not in ("api", "apis") or len(parts) <= root:
        raise ApiStatusError(404, "NotFound", f"the server could not find the requested resource: {path}")
    rest = parts[root:]
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    plural, name, subresource, *_ = [*(rest[2:] if namespace else rest), "", ""]
    return ObjectPath("/" + "/".join([*parts[:root], plural]), namespace, name, subresource)


class ObjectStore:
    """Keeps objects and the log of their changes; each change has the next resourceVersion.

    compacted: revision before which changes can no longer be watched.
    """

    def __init__(self) -> None:
        self.revision, self.compacted = 1, 0
        self.log: list[LoggedChange] = []
        self._objects: dict[ObjectPath, Object] = {}
        self._numbers = itertools.count(1)

    def get(self, place: ObjectPath) -> Object:
        found = self._objects.get(place.key)
        if found is None:
            plural = place.collection.rpartition("/")[2]
            raise ApiStatusError(404, "NotFound", f'{plural} "{place.name}" not found')
        return found

    def all(self, place: ObjectPath, selected: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        return [one for at, one in sorted(self._objects.items()) if place.contains(at) and selected(one)]

    def put(self, place: ObjectPath, body: Object) -> Object:
        """Creates or replaces the object."""
        before, after = self._objects.get(place.key), copy.deepcopy(body)
        self._described(after.setdefault("metadata", {}), place, before)
        self._objects[place.key] = after
        self._logged(place.key, before, after)
        return after

    def create(self, place: ObjectPath, body: Object) -> Object:
        meta = body.get("metadata") or {}
        name = meta.get("name") or f"{meta.get('generateName', '')}{next(self._numbers):05}"
        place = place._replace(name=name)
        _check_annotations(place, body)
        if place.key in self._objects:
            raise ApiStatusError(409, "AlreadyExists", f'{place.collection.rpartition("/")[2]} "{name}" already exists')
        return self.put(place, body)

    def replace(self, place: ObjectPath, body: Object) -> Object:
        _check_annotations(place, body)
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version and version != self.get(place)["metadata"]["resourceVersion"]:
            raise ApiStatusError(
                409, "Conflict", f'"{place.name}": the object has been modified; apply to the latest version'
            )
        return self.put(place, body)

    def patch(self, place: ObjectPath, patch: Object) -> Object:
        return self.replace(place, json_merge_patch(self.get(place), patch))

    def delete(self, place: ObjectPath, uid: str = "") -> Object:
        before = self.get(place)
        if uid and uid != before["metadata"]["uid"]:
            raise ApiStatusError(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
        del self._objects[place.key]
        self._logged(place.key, before, None)
        return before

    def changes_since(self, revision: int) -> Sequence[LoggedChange]:
        """Returns the changes after a revision. ApiStatusError 410 when some of them were compacted."""
        if revision < self.compacted:
            raise ApiStatusError(410, "Expired", f"too old resource version: {revision} ({self.compacted})")
        return [logged for logged in self.log if logged.revision > revision]

    def compact(self) -> None:
        """Deletes the log; the objects stay."""
        self.compacted = self.revision = self.revision + 1
        self.log.clear()

    def _described(self, meta: Object, place: ObjectPath, before: Object | None) -> None:
        meta["name"] = place.name
        if place.namespace:
            meta["namespace"] = place.namespace
        old = before["metadata"] if before else {}
        meta["uid"] = meta.get("uid") or old.get("uid") or f"uid-{next(self._numbers)}"
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["creationTimestamp"] = meta.get("creationTimestamp") or old.get("creationTimestamp") or now

    def _logged(self, place: ObjectPath, before: Object | None, after: Object | None) -> None:
        self.revision += 1
        last = after if after is not None else copy.deepcopy(before or {})
        last["metadata"]["resourceVersion"] = str(self.revision)
        self.log.append(LoggedChange(self.revision, place, before, after, last))


def _check_annotations(place: ObjectPath, body: Object) -> None:
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    if sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        text = f"metadata.annotations: Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        raise ApiStatusError(422, "Invalid", f'"{place.name}" is invalid: {text}')


def json_merge_patch(target: Any, patch: Any) -> Any:
    """Applies a merge patch by RFC 7386: null deletes, a list is replaced."""
    if not isinstance(patch, dict):
        return patch
    old = target if isinstance(target, dict) else {}
    kept = {key: value for key, value in old.items() if key not in patch}
    return kept | {key: json_merge_patch(old.get(key), value) for key, value in patch.items() if value is not None}


def object_selector(labels: str, fields: str) -> Callable[[Object], bool]:
    """Returns labelSelector's and fieldSelector's predicate: key=value, key==value, key!=value, key, !key; commas."""
    of_labels = [_parse_requirement(part) for part in labels.split(",") if part]
    of_fields = [_parse_requirement(part) for part in fields.split(",") if part]

    def selected(one: Object) -> bool:
        have = one["metadata"].get("labels") or {}
        return all(test(have.get(key)) for key, test in of_labels) and all(
            test(_field(one, key)) for key, test in of_fields
        )

    return selected


def _parse_requirement(text: str) -> tuple[str, Callable[[str | None], bool]]:
    key, unequal, value = text.partition("!=")
    if unequal:
        return key.strip(), lambda found: (found or "") != value.strip()
    key, equal, value = text.replace("==", "=").partition("=")
    if equal:
        return key.strip(), lambda found: (found or "") == value.strip()
    return key.strip().lstrip("!"), lambda found: (found is None) == key.strip().startswith("!")


def _field(one: Object, path: str) -> str:
    value: Any = one
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
