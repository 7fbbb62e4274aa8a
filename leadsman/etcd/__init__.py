"""Runs etcd for Leadsman: how a member without data joins the others, who may use which keys, who gets which password.

Here lives what reads and changes etcd's own members, users and roles. What is stored under the keys, and how it is
read, is `leadsman.state`'s.
"""
