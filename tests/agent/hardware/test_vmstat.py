from agent.hardware import compute


def test_the_wanted_counters_of_many() -> None:
    text = "nr_free_pages 91\npswpin 4\npswpout 7\npgmajfault 2\noom_kill 1\n"
    assert compute.parse_vmstat(text) == {"pswpin": 4, "pswpout": 7, "pgmajfault": 2, "oom_kill": 1}
