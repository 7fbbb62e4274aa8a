"""All defences."""

from tests.mutations.rows import (
    agent,
    connections,
    controller,
    deciding,
    healing,
    plugins,
    recording,
    reports,
    requests,
    state,
)

SUBJECTS = (connections, requests, deciding, state, reports, agent, controller, healing, plugins, recording)

MUTATIONS = tuple(mutation for subject in SUBJECTS for mutation in subject.MUTATIONS)
