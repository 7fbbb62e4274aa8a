"""What a leader remembers of backups comes back as it was; anything else is refused with the field."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.published.backups import BACKUPS, BackupMemory, RememberedBackup
from leadsman.published.documents import MAX_BYTES

names = st.text("abc-.", max_size=8)
rtts = st.dictionaries(names, st.floats(0, 1e6), max_size=3)
backups = st.dictionaries(names, st.builds(RememberedBackup, names, names, rtts), max_size=5)


@given(st.builds(BackupMemory, st.floats(0, 1e12), backups))
def test_it_comes_back_as_it_was(memory: BackupMemory) -> None:
    assert BACKUPS.decode(BACKUPS.encode(memory)) == memory


def test_ten_thousand_backups_fit() -> None:
    pods = {
        f"{number:08x}-0000-4000-8000-{number:012x}": RememberedBackup(
            f"edge-{number % 997}",
            f"{number // 5:08x}-0000-4000-8000-{number:012x}",
            {f"edge-{number % 89}": number / 7},
        )
        for number in range(10_000)
    }
    assert len(BACKUPS.encode(BackupMemory(1.0, pods))) < MAX_BYTES
