"""The two ways in which a command ends before its time: commands print either in one line, without a traceback."""


class UserError(ValueError):
    """Bad input: its message names the key or file, the value, what is allowed, the nearest valid choice. Exit 2."""


class Failure(RuntimeError):
    """The command cannot go on, through no mistake in its input. What was finished is saved. Exit 1."""
