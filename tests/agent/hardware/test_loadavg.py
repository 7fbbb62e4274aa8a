from agent.hardware import compute


def test_the_three_averages() -> None:
    assert compute.parse_load("0.07 0.02 1.50 2/90 5177\n") == compute.LoadAverages(0.07, 0.02, 1.5)
