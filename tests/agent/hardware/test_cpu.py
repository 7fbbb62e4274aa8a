from agent.hardware import cpu


def test_ticks_become_seconds_by_mode_over_all_cpus():
    parsed = cpu.parse("cpu  250 10 100 9000 40 0 7 3 99 0\ncpu0 125 5 50 4500 20 0 4 1 0 0\nintr 9\n")
    assert parsed.seconds == {
        "user": 2.5,
        "nice": 0.1,
        "system": 1.0,
        "idle": 90.0,
        "iowait": 0.4,
        "irq": 0.0,
        "softirq": 0.07,
        "steal": 0.03,
    }


def test_only_numbered_lines_count_as_cpus(server, values):
    assert values(cpu.collect, server, cpu.ONLINE) == {(): 8.0}


def test_a_kernel_with_fewer_modes_gives_those_it_has():
    assert cpu.parse("cpu 1 2 3 4\ncpu0 1 2 3 4\n").seconds.keys() == {"user", "nice", "system", "idle"}
