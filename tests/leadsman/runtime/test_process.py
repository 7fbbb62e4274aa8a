import asyncio
import os
import signal

import pytest

from leadsman.runtime.process import EXIT_FAILURE, run_tasks, run_until_stopped


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise ZeroDivisionError("a loop's own fault")


async def test_one_that_fails_ends_all_and_its_error_is_raised() -> None:
    async with asyncio.timeout(60):
        with pytest.raises(ExceptionGroup) as caught:
            await run_tasks({"measure": forever(), "report": fail()}, asyncio.Event())
    assert caught.group_contains(ZeroDivisionError, match="a loop's own fault")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_with_success(number: signal.Signals) -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(60):
            await stop.wait()

    assert run_until_stopped(main) == 0


def test_a_fault_that_an_operator_can_mend_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(_: asyncio.Event) -> None:
        raise ExceptionGroup("tasks", [OSError(98, "Address already in use")])

    assert run_until_stopped(main) == EXIT_FAILURE
    assert capsys.readouterr().err == "leadsman: [Errno 98] Address already in use\n"
