"""The scheduler extender: follows the state and answers kube-scheduler.

Here live kube-scheduler's wire types, the HTTP application with its deadlines and caps, and the journal of
recent decisions. It only reads the store. What to answer is decided in `decision`.
"""
