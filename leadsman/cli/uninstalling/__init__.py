"""What is Leadsman's in a cluster: the rules (`leftovers`), without I/O, and how a cluster is read and cleaned."""
