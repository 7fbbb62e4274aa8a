"""Lists objects completely: page by page, or in one response from the API server's cache.

A list holds everything that existed at its resourceVersion. Anything less (a page that failed, a body without items)
raises, so that it is never taken for "nothing exists".
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from leadsman.kube.client import JSON_CONTENT_TYPE, LARGEST_RESPONSE_BYTES, ApiClient, ApiRequest
from leadsman.kube.decoding import decode_json, json_decoder
from leadsman.kube.errors import Gone, MalformedResponse, ResponseTooLarge
from leadsman.kube.object_changes import ObjectKey, object_key
from leadsman.kube.objects import IdentifiedObject
from leadsman.kube.resources import Resource
from leadsman.runtime.decode_errors import UNREADABLE

T = TypeVar("T")

PAGE_ITEMS = 500
"""Full pods are about 8 KB, so a page is 4 MB and delays the event loop by some 10 ms."""

MAX_PAGE_BYTES = 8 << 20
"""A pod may have 1.5 MiB and 500 of them 750 MB, which nobody who follows them has. A page that is larger is requested
again with half as many objects; a page of one may have LARGEST_RESPONSE_BYTES."""

_METADATA_OF = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


class ListOptions(Struct, frozen=True):
    """Selects the objects to list or watch.

    namespace: "": all.
    label_selector, field_selector: in the API's syntax.
    metadata_only: the API server sends nothing else.
    """

    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def to_request(self, query: dict[str, str], *, watch: bool = False) -> ApiRequest:
        """Makes the request with these options and `query`."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        given = {name: value for name, value in selectors.items() if value}
        metadata = _METADATA_OF.format(f"PartialObjectMetadata{'' if watch else 'List'}")
        accept = metadata if self.metadata_only else JSON_CONTENT_TYPE
        return ApiRequest("GET", self.resource.path(self.namespace), given | query, accept=accept)


class ObjectList(Struct, Generic[T], frozen=True):
    """All objects of a list, at one resourceVersion.

    problems: what is wrong with each object that could not be decoded and is not among the items.
    """

    items: tuple[T, ...]
    resource_version: str
    problems: Mapping[ObjectKey, str] = {}


class _ListMetadata(Struct, frozen=True, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T], frozen=True):
    metadata: _ListMetadata
    items: list[T] | None


class _Expired(Exception):
    """The continue token is too old."""


async def list_objects(client: ApiClient, options: ListOptions, kind: type[T]) -> ObjectList[T]:
    """Lists the newest state in pages, or in one piece when the token of a page expires on the way.

    Raises ResponseTooLarge when the one piece is, or a single object.
    """
    try:
        return await _paged(client, options, kind)
    except _Expired:
        return _listing([await _page(client, options, kind, {}, LARGEST_RESPONSE_BYTES)])


async def list_from_cache(client: ApiClient, options: ListOptions, kind: type[T], at_least: str = "0") -> ObjectList[T]:
    """Lists in one response from the API server's cache, without a read of etcd: for many readers with few objects
    each.

    at_least: the resourceVersion that it must have reached; "0": any. Gone, or Unavailable with 504, when it has not.
    Raises ResponseTooLarge when there is more than a page: the cache does not page.
    """
    match = {} if at_least == "0" else {"resourceVersionMatch": "NotOlderThan"}
    return _listing([await _page(client, options, kind, {"resourceVersion": at_least} | match)])


async def _paged(client: ApiClient, options: ListOptions, kind: type[T]) -> ObjectList[T]:
    pages: list[_Read[T]] = []
    items, token = PAGE_ITEMS, ""
    while not pages or token:
        query = {"limit": str(items)} | ({"continue": token} if token else {})
        max_bytes = MAX_PAGE_BYTES if items > 1 else LARGEST_RESPONSE_BYTES
        try:
            pages.append(await _page(client, options, kind, query, max_bytes))
            token = pages[-1][0].continue_
        except ResponseTooLarge:
            if items == 1:
                raise
            items //= 2
        except Gone as error:
            if not token:
                raise
            raise _Expired from error
    return _listing(pages)


_Read = tuple[_ListMetadata, list[T], dict[ObjectKey, str]]


async def _page(
    client: ApiClient, options: ListOptions, kind: type[T], query: dict[str, str], max_bytes: int = MAX_PAGE_BYTES
) -> _Read[T]:
    """Decodes a page at once; object by object when that fails, so that a bad object costs only itself."""
    body = await client.send(structs.replace(options.to_request(query), max_bytes=max_bytes))
    try:
        page: _Page[T] = json_decoder(_Page[kind]).decode(body)  # type: ignore[valid-type]
        return page.metadata, page.items or [], {}
    except UNREADABLE:
        return _one_by_one(body, kind)


def _one_by_one(body: bytes, kind: type[T]) -> _Read[T]:
    page = decode_json(body, _Page[Raw])
    items, problems = [], dict[ObjectKey, str]()
    for raw in page.items or ():
        try:
            items.append(decode_json(raw, kind))
        except MalformedResponse as error:
            problems[_key_of(raw)] = str(error)
    return page.metadata, items, problems


def _key_of(raw: Raw) -> ObjectKey:
    """Returns the object's namespace and name, both "" where not even they can be read."""
    try:
        return object_key(decode_json(raw, IdentifiedObject).metadata)
    except MalformedResponse:
        return "", ""


def _listing(pages: list[_Read[T]]) -> ObjectList[T]:
    """Returns the pages as one list; every page is of the first one's resourceVersion."""
    items = tuple(item for _, some, _ in pages for item in some)
    problems = {key: problem for *_, some in pages for key, problem in some.items()}
    return ObjectList(items, pages[0][0].resource_version, problems)
