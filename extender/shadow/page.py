"""The page /shadow on the operators' port: what the shadow policy would have answered, as text or JSON."""

import msgspec
from aiohttp import hdrs, web

from extender.shadow.shadow import Shadow, ShadowPage
from leadsman.runtime.text_table import align_columns


def add_page(app: web.Application, shadow: Shadow) -> None:
    """JSON by Accept or format=json."""

    async def show(request: web.Request) -> web.Response:
        page = shadow.page()
        if request.query.get("format") == "json" or "application/json" in request.headers.get(hdrs.ACCEPT, ""):
            return web.Response(body=msgspec.json.encode(page), content_type="application/json")
        return web.Response(text=format_page(page))

    app.router.add_get("/shadow", show)


def format_page(page: ShadowPage) -> str:
    lines = [f"shadow policy {page.policy}, live policy {page.live_policy}; {page.dropped} requests not judged"]
    lines += [f"problem: {problem}" for problem in (page.policy_problem, page.problem) if problem]
    counted = [
        [result.replace("_", " "), verb, str(number)]
        for verb, results in page.results.items()
        for result, number in results.items()
    ]
    lines += ["", *align_columns([["RESULT", "VERB", "REQUESTS"], *counted])]
    if page.changes:
        rows = [
            [each.at, each.change.pod, each.change.verb, each.change.change, each.change.why] for each in page.changes
        ]
        lines += ["", *align_columns([["WHEN", "POD", "VERB", "CHANGE", "WHY"], *rows])]
    return "\n".join(lines) + "\n"
