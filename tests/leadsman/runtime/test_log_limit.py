import logging

import pytest

from leadsman.runtime.log_limit import LINES_BURST, LogLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def logger(clock: Clock) -> logging.Logger:
    """A logger of its own, so that no other test has used up its lines."""
    limited = logging.Logger("limited")
    limited.parent = logging.getLogger()
    limited.addFilter(LogLimit(clock))
    return limited


def test_a_flood_is_ten_lines_and_then_one_a_minute(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(601):
        clock.now = float(second)
        for number in range(10):
            logger.warning("refused %s", number)
    assert len(caplog.messages) == LINES_BURST + 10
