"""The command line as data, read from its parser, and what is made of it: completion, man pages, a reference."""
