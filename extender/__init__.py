"""The scheduler extender answers kube-scheduler: which nodes may take a pod, and how good each is.

Here live kube-scheduler's wire types, the HTTP application with its deadlines and limits, and the journal of recent
decisions, its replay, plugins' processes, the API and the page. What to answer is decided in `leadsman.decision`. The
extender reads the state in etcd and writes three kinds of short-lived records there: which pairs agents should probe,
which binds failed, and which devices are reserved.
"""
