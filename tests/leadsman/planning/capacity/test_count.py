"""The count of a small cluster is what trying everything finds, and what it packs passes the judges."""

import contextlib

import pytest

from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.capacity.fit import count_together
from leadsman.planning.capacity.judged import broken
from leadsman.planning.capacity.model import model_capacity
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL
from tests.leadsman.planning.capacity.small_clusters import EveryPacking, TooManyPackings, small_case

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_a_count_equals_trying_everything(first_seed: int) -> None:
    tried = 0
    for seed in range(first_seed, first_seed + 50):
        case, templates = small_case(seed)
        model = model_capacity(*case, templates, SETTINGS)
        count = count_together(model)
        assert not broken(model, count.packing), f"seed {seed}"
        assert count.exact, f"seed {seed}: {count.sets} to {count.at_most}"
        with contextlib.suppress(TooManyPackings):
            assert EveryPacking(case, templates, model.plan).most_sets(count.sets + 1) == count.sets, f"seed {seed}"
            tried += 1
    assert tried > 40
