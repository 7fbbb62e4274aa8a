"""Which devices pods are kept off because they are unhealthy: from what monitoring reads of each device, the marks that
it has and the operator's policy, to the marks that the controller sets and removes.

How devices are read and marks are written is elsewhere; which device a pod gets is the allocator's.
"""
