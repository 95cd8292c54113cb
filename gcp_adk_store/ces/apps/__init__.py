"""Agent apps as folders of files: what they consist of, what is wrong with them, and their tests."""

from typing import Final

CODE_FILE: Final = "python_code.py"
"""The name of each file of code in an export."""
