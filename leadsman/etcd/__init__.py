"""Runs etcd for Leadsman: how a member without data joins the others.

Here lives what reads and changes etcd's own members. What is stored under the keys, and how it is read, is
`leadsman.state`'s. `membership` is pure; `member_start` does I/O.
"""
