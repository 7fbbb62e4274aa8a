"""The command line: `leadsman agent|extender|explain|demo`. Settings are read here, once, and passed down."""
