"""What was used lately stays, what was not goes."""

from leadsman.runtime.lru import IdentityKey, LruCache


def test_what_is_used_outlives_any_number_of_others() -> None:
    recent: LruCache[int, str] = LruCache(2)
    recent.put(0, "used")
    for key in range(1, 50):
        recent.put(key, "other")
        assert recent.get(0) == "used"


def test_an_identity_key_is_equal_for_the_same_objects_only() -> None:
    one, equal = [1], [1]
    assert IdentityKey((one, equal)) == IdentityKey((one, equal))
    assert hash(IdentityKey((one, equal))) == hash(IdentityKey((one, equal)))
    assert IdentityKey((one,)) != IdentityKey((equal,))
    assert IdentityKey((one,)) != IdentityKey((one, equal))
    assert IdentityKey((one,)) != (one,)
