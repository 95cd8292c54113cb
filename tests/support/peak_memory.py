"""Count how much memory a block takes."""

import gc
import tracemalloc
from typing import Self


class Peak:
    """The most bytes that Python held at once in a block, beyond those from before it.

    They are counted as they are allocated: what the machine does with its pages does not matter.
    Cycles are freed soon: how many of them wait for the collector would depend on what ran before.
    What was there before stays frozen, as tests/conftest.py leaves it: no later block goes through it.
    """

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()
        self._threshold = gc.get_threshold()
        gc.set_threshold(500, 1, 1)
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        gc.set_threshold(*self._threshold)
