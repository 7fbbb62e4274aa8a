"""A token file of the API server that turns bad: named in the log, and read again once it is good."""

from pathlib import Path

from tests.testbed.scripted_api_server import ApiServerThread
from tests.whole.conftest import Start, Until


def test_a_bad_token_file_is_named_and_the_process_goes_on_once_it_is_good(
    start: Start, until: Until, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    why = f"token file {token}: it holds no bearer token; it must be one line of ASCII without spaces"
    with ApiServerThread(token="good") as api:
        process = start("controller", "--kube-api", api.url, "--kube-token-file", str(token))
        until(lambda: why in process.log, "the file named")
        assert process.get("/healthz")[0] == 200
        token.write_text("good\n")
        until(lambda: "are watched again" in process.log, "the file read again")
        assert process.stop() == 0
    assert "Traceback" not in process.log
