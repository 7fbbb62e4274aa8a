"""Answers as kubectl does, from a file of objects, and forwards ports to processes of this machine: no kubelet runs in
these tests. The path of the file is in KUBECTL_STAND_IN: {"objects": {"pods": […], "secret NAME": {…}}, "ports": {POD:
{CONTAINER PORT: PORT}}, "texts": {"config view": "…"}, "refused": [RESOURCE]}.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

DOCUMENT = json.loads(Path(os.environ["KUBECTL_STAND_IN"]).read_text())


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def forward(pod: str, ports: str) -> None:
    local, _, port = ports.partition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", DOCUMENT["ports"][pod][port])
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", int(local or 0))
    sys.stdout.write(f"Forwarding from 127.0.0.1:{server.sockets[0].getsockname()[1]} -> {port}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main(words: list[str]) -> int:
    words = [word for word in words if not word.startswith("--")]
    if words[0] == "port-forward":
        asyncio.run(forward(words[-2].removeprefix("pod/"), words[-1]))
    if words[0] == "version":
        sys.stdout.write('{"serverVersion": {"gitVersion": "v1.36.2"}}')
        return 0
    if words[0] == "auth":
        refused = words[3] in DOCUMENT["refused"]
        sys.stdout.write("no\n" if refused else "yes\n")
        return int(refused)
    if words[0] == "get":
        names = [words[1], f"{words[1]} {words[2]}"]
        answer = next((DOCUMENT["objects"][name] for name in names if name in DOCUMENT["objects"]), None)
        if answer is None:
            sys.stderr.write(f'Error from server (NotFound): {words[1]} "{words[2]}" not found\n')
            return 1
        sys.stdout.write(json.dumps({"items": answer} if isinstance(answer, list) else answer))
        return 0
    sys.stdout.write(DOCUMENT.get("texts", {}).get(" ".join(words[:2]), ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
