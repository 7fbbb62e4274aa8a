"""Runs etcd for Leadsman: how a member without data joins the others, who may use which keys, what heals by itself.

What is stored under the keys, and how it is read, is `leadsman.state`'s. `roles` is pure; `clients` knows who calls,
`gateway` answers, `member_start` and `member_care` look after the member.
"""
