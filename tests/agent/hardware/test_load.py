from agent.hardware import load


def test_the_three_averages():
    assert load.parse("0.07 0.02 1.50 2/90 5177\n") == load.LoadAverages(0.07, 0.02, 1.5)
