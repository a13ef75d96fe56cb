"""The one base class of mistakes that belong to the user. Commands print them in one line and exit with code 2."""


class UserError(ValueError):
    """Bad input: its message names the key or file, the value, what is allowed, and the nearest valid choice."""
