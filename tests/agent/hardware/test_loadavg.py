from agent.hardware import cpu


def test_the_three_averages() -> None:
    assert cpu.parse("0.07 0.02 1.50 2/90 5177\n") == cpu.LoadAverages(0.07, 0.02, 1.5)
