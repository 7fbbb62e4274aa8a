"""Headless Chromium, spoken to by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/).

aiohttp has the WebSocket that this needs, so there is no driver and no package more.
"""

import asyncio
import base64
import itertools
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MISSING = "needs a browser: apt-get install --no-install-recommends chromium"
_DEADLINE_SECONDS = 90.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)


class ScriptFailed(Exception):
    """What a script of the test threw in the page."""


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Tab:
    """One tab, and what went wrong in it.

    complaints: errors of the console, uncaught exceptions, refusals of the Content-Security-Policy, failed requests.
    received_bytes: as sent over the network, compressed.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        self.received_bytes = 0

    async def listen(self) -> None:
        async for message in self._socket:
            content = message.json()
            if "id" in content:
                self._answers.pop(content["id"]).set_result(content)
            else:
                self._note(content["method"], content["params"])

    def _note(self, method: str, event: dict[str, Any]) -> None:
        match method:
            case "Runtime.consoleAPICalled" if event["type"] in ("error", "warning", "assert"):
                told = (str(each.get("value", each.get("description"))) for each in event["args"])
                self.complaints.append(" ".join(told))
            case "Runtime.exceptionThrown":
                self.complaints.append(_thrown(event["exceptionDetails"]))
            case "Log.entryAdded" if event["entry"]["level"] in ("error", "warning"):
                self.complaints.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
            case "Network.loadingFinished":
                self.received_bytes += int(event.get("encodedDataLength", 0))

    async def command(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        content = await asyncio.wait_for(answer, _DEADLINE_SECONDS)
        if "error" in content:
            raise ScriptFailed(f"{method}: {content['error']['message']}")
        result: dict[str, Any] = content["result"]
        return result

    async def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = await self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ScriptFailed(_thrown(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def wait_for(self, condition: str) -> None:
        """Until a JavaScript expression is true.

        One that throws is not true yet: between two documents there is none to ask. What it threw last is raised if
        it never becomes true.
        """
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            failure = None
            try:
                if await self.evaluate(f"Boolean({condition})"):
                    return
            except ScriptFailed as failed:
                failure = failed
            if time.monotonic() > deadline:
                raise ScriptFailed(f"not true within {_DEADLINE_SECONDS:g} s: {condition}") from failure
            await asyncio.sleep(0.02)

    async def navigate(self, url: str) -> None:
        """A page loaded from the start, drawn with its data."""
        await self.command("Page.navigate", url="about:blank")
        self.received_bytes = 0
        await self.command("Page.navigate", url=url)
        await self.wait_for("document.documentElement?.dataset.painted !== undefined")

    async def go(self, place: str) -> None:
        """Another place of the loaded page, by its hash, drawn with its data."""
        if await self.evaluate("location.hash") != place:
            await self.evaluate(f"void (delete document.documentElement.dataset.painted, location.hash = {place!r})")
        await self.wait_for("document.documentElement.dataset.painted !== undefined")

    async def size(self, width: int, height: int, *, mobile: bool = False, pixel_ratio: float = 1) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": pixel_ratio, "mobile": mobile}
        await self.command("Emulation.setDeviceMetricsOverride", **metrics)

    async def prefer(self, scheme: str) -> None:
        """The system's color scheme: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.command("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str) -> None:
        """A key, pressed and released where the focus is."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        await self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.command("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def screenshot(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode((await self.command("Page.captureScreenshot", format="png"))["data"])


def _thrown(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description", details["text"]))


@asynccontextmanager
async def open_tab() -> AsyncIterator[Tab]:
    """A browser of its own with one tab; ended with the block."""
    program = find_browser()
    assert program, MISSING
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            assert process.stderr is not None
            port = await asyncio.wait_for(_debugging_port(process.stderr), _DEADLINE_SECONDS)
            drained = asyncio.create_task(_drain(process.stderr))
            async with aiohttp.ClientSession() as session, _attached(session, port) as tab:
                yield tab
            drained.cancel()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _debugging_port(stderr: asyncio.StreamReader) -> int:
    """From the line "DevTools listening on ws://127.0.0.1:PORT/…"."""
    async for line in stderr:
        if b"DevTools listening on " in line:
            return int(line.split(b":")[2].split(b"/")[0])
    raise ScriptFailed("the browser ended before it listened")


async def _drain(stderr: asyncio.StreamReader) -> None:
    while await stderr.read(65536):
        pass


@asynccontextmanager
async def _attached(session: aiohttp.ClientSession, port: int) -> AsyncIterator[Tab]:
    async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
        (page,) = [target for target in await answer.json() if target["type"] == "page"]
    async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        tab = Tab(socket)
        listening = asyncio.create_task(tab.listen())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.command(f"{domain}.enable")
        try:
            yield tab
        finally:
            listening.cancel()
