"""Name the command that installs an extra of this package."""


def how_to_install(extra: str) -> str:
    """Return the command that installs *extra*.

    It names the path of a clone: the package index does not have this package, and a stranger may take its
    name there.
    """
    return f"pip install '.[{extra}]' in a clone of its repository"
