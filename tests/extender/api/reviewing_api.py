"""An API server that is a table of tokens and rights, behind real HTTP."""

from typing import Any

from aiohttp import web

from extender.api.token_access import AUDIENCE, URL
from leadsman.runtime.http_server import track_request

GROUP = "system:serviceaccounts:shop"
TOKENS: dict[str, dict[str, Any]] = {
    "of-a-reader": {"username": "reader", "groups": [GROUP], "uid": "u-1", "extra": {"scopes": ["read"]}},
    "of-a-stranger": {"username": "stranger"},
}


class ReviewingApi:
    """reviews: what was asked. tokens: token → its user. audiences: of all tokens. rights: user and verb."""

    def __init__(self) -> None:
        self.reviews = list[Any]()
        self.tokens = dict(TOKENS)
        self.audiences = [AUDIENCE]
        self.rights = {("reader", "get")}

    def app(self) -> web.Application:
        app = web.Application(middlewares=[track_request])
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._token)
        app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", self._right)
        return app

    async def _token(self, request: web.Request) -> web.Response:
        user = self.tokens.get((await self._spec(request))["token"])
        status = {"authenticated": True, "user": user, "audiences": self.audiences} if user else {}
        return web.json_response({"status": status})

    async def _right(self, request: web.Request) -> web.Response:
        spec = await self._spec(request)
        attributes = spec["nonResourceAttributes"]
        allowed = attributes["path"] == URL and (spec["user"], attributes["verb"]) in self.rights
        return web.json_response({"status": {"allowed": allowed}})

    async def _spec(self, request: web.Request) -> Any:
        self.reviews.append((await request.json())["spec"])
        return self.reviews[-1]
