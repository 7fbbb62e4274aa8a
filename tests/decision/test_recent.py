"""What was used lately stays, what was not goes."""

from decision.recent import Recent


def test_what_is_used_outlives_any_number_of_others() -> None:
    recent: Recent[int, str] = Recent(2)
    recent.keep(0, "used")
    for key in range(1, 50):
        recent.keep(key, "other")
        assert recent.get(0) == "used"


def test_what_is_not_used_is_forgotten_after_two_generations() -> None:
    recent: Recent[int, str] = Recent(2)
    recent.keep(0, "unused")
    recent.age()
    assert recent._old == {0: "unused"}
    recent.age()
    assert recent.get(0) is None


def test_there_are_never_more_than_twice_as_many() -> None:
    recent: Recent[int, int] = Recent(3)
    for key in range(100):
        recent.keep(key, key)
        recent.get(key - 4)
        assert len(recent._young) + len(recent._old) <= 6


def test_a_new_value_replaces_the_old_one() -> None:
    recent: Recent[int, str] = Recent(1)
    recent.keep(0, "old")
    recent.keep(0, "new")
    assert recent.get(0) == "new"
