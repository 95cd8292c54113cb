"""What runs beside user code: the runtime's names, and the one call that runs code with them.

Needs the standard library and pydantic 2.11 alone, on CPython 3.11 to 3.13, and imports itself relatively: a
sandbox mounts this folder under any name.
"""
