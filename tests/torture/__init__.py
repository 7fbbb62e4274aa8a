"""Torture: a whole cluster of real processes under faults and hostile input, and a checker of the promises.

    python -m tests.torture --minutes 5 --seed 7        rows by seed, then overlaps of them while there is time
    python -m tests.torture --seed 7 --only wiped       one row again

The cluster runs (`cluster`), a steady load asks it (`load`), a recorder writes down what happened (`recorder`, `log`),
rows break it and heal it (`*_faults`, `hostile`), and `checker` says from the log alone which promise was broken. The
table is in benchmarks/end-to-end.md. `checker` and `pushes` are pure.
"""
