"""All defences."""

from tests.mutations.rows import (
    agent,
    api,
    command_line,
    connections,
    controller,
    deciding,
    devices,
    etcd,
    healing,
    planning,
    plugins,
    recording,
    reports,
    requests,
    state,
)

SUBJECTS = (
    connections,
    requests,
    api,
    deciding,
    devices,
    state,
    reports,
    agent,
    controller,
    etcd,
    healing,
    planning,
    plugins,
    recording,
    command_line,
)

MUTATIONS = tuple(mutation for subject in SUBJECTS for mutation in subject.MUTATIONS)
