from agent.quarantine import after_overrun, is_over


def after(count):
    quarantine = None
    for _ in range(count):
        quarantine = after_overrun(quarantine, 0.0, 0.0)
    return quarantine


def test_pauses_double_up_to_the_longest() -> None:
    assert [after(count).not_before_seconds for count in (1, 2, 3, 4, 7, 99)] == [5, 10, 20, 40, 300, 300]


def test_over_only_after_the_pause_and_with_the_thread_back() -> None:
    quarantine = after_overrun(None, 0.0, 0.0)
    assert not is_over(quarantine, 4.9, running=False)
    assert not is_over(quarantine, 500.0, running=True)
    assert is_over(quarantine, 5.0, running=False)
