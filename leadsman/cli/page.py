"""`leadsman page`: the page of an extender in the browser of this machine."""

import argparse
import asyncio
import ssl
from pathlib import Path

from leadsman.cli import kubectl
from leadsman.cli.extender_replicas import PAGE_PORT, extender_pods
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, port_number
from leadsman.cli.page_proxy import PageProxy, PageUnavailable, Upstream
from leadsman.runtime.http_server import serve
from leadsman.runtime.process import run_until_stopped


def options(add: Options) -> None:
    add = add.without_environment()
    add.argument(
        "url",
        "the page's URL, where it is reached without kubectl (default: kubectl port-forward to an extender)",
        None,
        _page_url,
        metavar="URL",
    )
    add.argument("token-file", "file with a token for the audience leadsman-page", None, existing_file)
    add.argument("ca", "CA that the URL's certificate must chain to, in PEM", None, existing_file)
    add.argument("port", "port of 127.0.0.1 that the page is served on (default: a free one)", 0, port_number)
    kubectl.options(add)


def main(args: argparse.Namespace) -> int:
    if args.url:
        return _serve(args, args.url)
    ours, namespace = kubectl.Kubectl.of(args), args.extender_namespace
    pod = extender_pods(ours, namespace)[0]["metadata"]["name"]
    with ours.port_forward(namespace, pod, PAGE_PORT) as port:
        return _serve(args, f"http://127.0.0.1:{port}")


def _page_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: want https://HOST:PORT or http://HOST:PORT")
    return text.rstrip("/")


def _serve(args: argparse.Namespace, url: str) -> int:
    token_file: Path | None = args.token_file
    tls = ssl.create_default_context(cafile=args.ca) if args.ca else None
    proxy = PageProxy(Upstream(url, lambda: token_file.read_text().strip() if token_file else "", tls))

    async def run(stop: asyncio.Event) -> None:
        async with serve(proxy.app(), "127.0.0.1", args.port) as port:
            await proxy.check()
            print(f"open http://127.0.0.1:{port}/?token={proxy.token} (works once; Ctrl-C ends it)", flush=True)
            await stop.wait()

    return run_until_stopped(run, expected=(PageUnavailable,))
