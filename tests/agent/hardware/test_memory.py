from agent.hardware import memory


def test_kib_become_bytes_and_other_fields_are_left():
    assert memory.parse("MemTotal:  2 kB\nHugePages_Total:  0\nActive(anon): 5 kB\n") == {"MemTotal": 2048}


def test_a_host_without_memavailable_has_no_such_series(tree, values):
    roots = tree({"proc/meminfo": "MemTotal: 8 kB"})
    assert values(memory.collect, roots, memory.AVAILABLE) == {}
    assert values(memory.collect, roots, memory.TOTAL) == {(): 8192}
