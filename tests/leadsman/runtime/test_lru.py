"""What was used lately stays, what was not goes."""

from leadsman.runtime.lru import LruCache


def test_what_is_used_outlives_any_number_of_others() -> None:
    recent: LruCache[int, str] = LruCache(2)
    recent.put(0, "used")
    for key in range(1, 50):
        recent.put(key, "other")
        assert recent.get(0) == "used"
