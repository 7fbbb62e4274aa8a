"""How a command says that it failed."""


class CommandFailed(Exception):
    """A command cannot do what it was asked, through no fault of its flags; says why and what to do."""
