"""`leadsman uninstall` where it is not shown everything."""

from aiohttp import web

from leadsman.runtime.http_server import serve
from tests.leadsman.cli.conftest import Called


async def test_what_it_could_not_look_at_is_named_and_not_taken_for_nothing(called: Called) -> None:
    """The user may not list Secrets, and the server of another group is away."""
    kinds = {"secrets": "Secret", "nodes": "Node"}
    answers = {
        "/apis": {"groups": [{"preferredVersion": {"groupVersion": "metrics.k8s.io/v1beta1"}}]},
        "/api/v1": {"resources": [{"name": n, "kind": kinds[n], "verbs": ["list", "delete"]} for n in kinds]},
        "/api/v1/nodes": {"metadata": {}, "items": []},
    }

    async def answer(request: web.Request) -> web.Response:
        status = 200 if request.path in answers else 403 if request.path.endswith("secrets") else 503
        return web.json_response(answers.get(request.path, {"message": "no"}), status=status)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serve(app, "127.0.0.1", 0) as port:
        code, out, said = await called("uninstall", f"--kube-api=http://127.0.0.1:{port}")
    assert (code, out) == (1, "nothing of Leadsman is in what was looked at\n")
    assert "not looked at: secrets of v1: " in said
    assert "not looked at: metrics.k8s.io/v1beta1: " in said


async def test_what_is_deleted_is_said_on_a_terminal_and_what_stays_in_the_end(called: Called, told: list[str]) -> None:
    """Endpoints have their Service's labels and go with it, though it is not their owner."""
    labels = {"app.kubernetes.io/part-of": "leadsman"}
    kinds = {"configmaps": "ConfigMap", "endpoints": "Endpoints"}
    resources = [{"name": name, "kind": kind, "verbs": ["list", "delete"]} for name, kind in kinds.items()]
    gone, stays, served = [
        {"metadata": {"name": name, "uid": name, "labels": labels}} for name in ("gone", "stays", "served")
    ]
    answers = {
        "/apis": {"groups": []},
        "/api/v1": {"resources": resources},
        "/api/v1/configmaps": {"metadata": {}, "items": [gone, stays]},
        "/api/v1/endpoints": {"metadata": {}, "items": [served]},
        "/api/v1/nodes": {"metadata": {}, "items": []},
        "/api/v1/configmaps/gone": {},
    }

    async def answer(request: web.Request) -> web.Response:
        status = 200 if request.path in answers else 403
        return web.json_response(answers.get(request.path, {"message": "no"}), status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serve(app, "127.0.0.1", 0) as port:
        code, _, said = await called("uninstall", "--delete", f"--kube-api=http://127.0.0.1:{port}")
    assert told[-2:] == ["deletes ConfigMap gone", "deletes ConfigMap stays"]
    assert (code, said.startswith("ConfigMap stays stays: ")) == (1, True)
