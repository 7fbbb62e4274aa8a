"""Every path of the API with what it takes and returns: the application and the OpenAPI document are made of this."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from msgspec import Struct

from extender.api.contract.cluster import PolicyRow, RewardMatrix, RunningPolicy
from extender.api.contract.common import ListPage
from extender.api.contract.decisions import (
    DecisionDetail,
    DecisionRow,
    MeasureRequest,
    MeasureResponse,
    WhatIfRequest,
)
from extender.api.contract.delays import (
    DelayCells,
    DelayChanges,
    GroupDelays,
    LostLink,
    NodeLayers,
    NodesWithin,
    PairDelays,
)
from extender.api.contract.nodes import NodeDetail, NodeRow, ReportedState
from extender.api.contract.overview import HealthChecks, Overview
from extender.api.handlers import ApiHandlers

PREFIX = "/api/v1"

Handler = Callable[[web.Request], Awaitable[Struct]]

PAGED = ("limit", "cursor")
SEARCHED = ("search", *PAGED)


class Route(Struct, frozen=True):
    """path: below PREFIX; parts in braces are parameters. handle: the method of ApiHandlers.

    returns: type of the body. query: names of the query's parameters; `required` are those without a default.
    takes: type of a POST's body; None: it is a GET.
    """

    path: str
    handle: Callable[[ApiHandlers], Handler]
    returns: Any
    summary: str
    query: Sequence[str] = ()
    required: Sequence[str] = ()
    takes: Any = None
    status: int = 200

    @property
    def method(self) -> str:
        return "POST" if self.takes else "GET"


ROUTES: Sequence[Route] = (
    Route("/overview", lambda h: h.overview, Overview, "The strip above everything."),
    Route(
        "/nodes",
        lambda h: h.nodes,
        ListPage[NodeRow],
        "All nodes.",
        ("search", "group", "status", "sort", *PAGED),
    ),
    Route("/nodes/{name}", lambda h: h.node, NodeDetail, "One node, with its peers and history."),
    Route("/state", lambda h: h.state, ReportedState, "All that agents last reported, as it is now."),
    Route("/delays/groups", lambda h: h.delay_groups, GroupDelays, "Delays group by group, outliers and slow nodes."),
    Route(
        "/delays/cells",
        lambda h: h.delay_cells,
        DelayCells,
        "A tile of at most 128 by 128 of the node by node matrix.",
        ("row_offset", "column_offset", "rows", "columns"),
    ),
    Route(
        "/delays/lost",
        lambda h: h.lost_links,
        ListPage[LostLink],
        "Links of which every probe was lost.",
        ("search", "sort", *PAGED),
    ),
    Route(
        "/delays/pairs/{a}/{b}",
        lambda h: h.delay_pair,
        PairDelays,
        "One pair of nodes, and its last hour.",
    ),
    Route("/delays/layers", lambda h: h.delay_layers, NodeLayers, "Groups of near nodes, by the layers asked for."),
    Route(
        "/delays/within",
        lambda h: h.delays_within,
        NodesWithin,
        "Every node against a delay bound to one node.",
        ("node", "bound_ms"),
        ("node", "bound_ms"),
    ),
    Route(
        "/delays/change",
        lambda h: h.delay_changes,
        DelayChanges,
        "The difference between two moments of the history.",
        ("from", "to", *PAGED),
        ("from", "to"),
    ),
    Route(
        "/decisions",
        lambda h: h.decisions,
        ListPage[DecisionRow],
        "The decisions that are kept, the newest first.",
        ("search", "kind", *PAGED),
    ),
    Route("/decisions/{id}", lambda h: h.decision, DecisionDetail, "One decision; nodes are paged.", SEARCHED),
    Route("/pods/{namespace}/{name}", lambda h: h.pod, DecisionDetail, "The newest decision on a pod.", SEARCHED),
    Route(
        "/what-if",
        lambda h: h.what_if,
        DecisionDetail,
        "What would be decided on a pasted pod. Nothing is kept.",
        SEARCHED,
        takes=WhatIfRequest,
    ),
    Route(
        "/measure",
        lambda h: h.measure,
        MeasureResponse,
        "Asks a node's agent to measure another node now.",
        takes=MeasureRequest,
        status=202,
    ),
    Route("/rewards", lambda h: h.rewards, RewardMatrix, "Pod types by nodes.", ("type", "node", *SEARCHED)),
    Route("/policy", lambda h: h.policy, RunningPolicy, "The policy that decides now, and what its plugins do."),
    Route("/policies", lambda h: h.policies, ListPage[PolicyRow], "Policies, and what is wrong with them.", PAGED),
    Route("/health", lambda h: h.health, HealthChecks, "Checks of this process, the failing ones first."),
)
