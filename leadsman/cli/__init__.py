"""Holds the command line, one file a command. Settings are read here, once, and passed down."""
