"""The snapshot file: a whole cluster and what decisions are made on, as they were at one moment.

`document` is the format, `writing` and `reading` turn it to bytes and back, `anonymous` takes the names out of it.
docs/snapshot.md has it for users. What the values mean is defined where they live: `leadsman.cluster`,
`leadsman.decision`, `leadsman.state.records`.
"""
