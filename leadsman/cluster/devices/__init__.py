"""Models a node's devices: cards, SR-IOV virtual functions, devices of Dynamic Resource Allocation, and who has them.

What a pod asks of devices is a DeviceDemand, whichever side it is read from: kube-scheduler's request, or a bound pod.
Whether a node is a good choice is decided in `leadsman.decision.devices`.
"""
