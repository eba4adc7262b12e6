"""What is made once is made once, also by threads that come together."""

from __future__ import annotations

import threading
import time

from tilewright.cpu.runtime.once import once


def test_threads_that_come_together_get_one_thing() -> None:
    made: list[object] = []

    @once
    def slow() -> object:
        """Makes it."""
        time.sleep(0.02)
        made.append(object())
        return made[-1]

    got: list[object] = []
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        got.append(slow())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and got == made * 8
    assert slow() is made[0] and slow.__doc__ == "Makes it."


def test_what_fails_is_tried_again() -> None:
    tries: list[int] = []

    @once
    def third() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError
        return len(tries)

    for _ in range(2):
        try:
            third()
        except ValueError:
            continue
    assert third() == third() == 3
