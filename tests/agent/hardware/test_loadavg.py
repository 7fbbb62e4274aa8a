from agent.hardware import loadavg


def test_the_three_averages() -> None:
    assert loadavg.parse("0.07 0.02 1.50 2/90 5177\n") == loadavg.LoadAverages(0.07, 0.02, 1.5)
