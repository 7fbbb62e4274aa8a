"""What `leadsman doctor` looks at and concludes: `gathering` asks the cluster, `checks` is pure."""
