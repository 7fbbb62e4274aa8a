"""Runs an extender that only decodes and encodes, with our library and types. `python -m benchmarks.echo_extender`

Every node passes, every score is 5. What ours takes longer is what deadlines, caps, metrics, journal and decision cost.
"""

import asyncio

import msgspec
from aiohttp import web

from extender import handlers
from extender.wire.verbs import read_args

LARGEST_BODY_BYTES = 256 << 20


async def filter_(request: web.Request) -> web.Response:
    asked = read_args(await request.read())
    if asked.raw_nodes is None:
        return web.Response(body=handlers.filtered_names(asked.node_names, {}), content_type="application/json")
    answer = {"Nodes": {"items": list(asked.raw_nodes.values())}, "NodeNames": None, "FailedNodes": {}, "Error": ""}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def prioritize(request: web.Request) -> web.Response:
    asked = read_args(await request.read())
    return web.Response(
        body=handlers.host_priorities(dict.fromkeys(asked.node_names, 5)), content_type="application/json"
    )


async def main() -> None:
    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.add_routes([web.post("/filter", filter_), web.post("/prioritize", prioritize)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
