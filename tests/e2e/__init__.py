"""End to end on real kubelets: a cluster of nodes in namespaces, Leadsman on it, and what is done to both.

`make e2e`, as root, where E2E_BIN names a folder of Kubernetes programs (`tests.e2e.needs`). Here live the cluster, the
images and the rows of the table.
"""
