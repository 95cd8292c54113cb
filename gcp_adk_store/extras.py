"""Say how to install what an extra of this package brings."""


def how_to_install(extra: str) -> str:
    """Return the command that installs *extra*.

    It names the path of a clone: the package is on no index, so its name there may be a stranger's.
    """
    return f"pip install '.[{extra}]' in a clone of its repository"
