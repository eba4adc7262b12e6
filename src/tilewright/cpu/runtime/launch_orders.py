"""A warm launch in one call of native code, which reads the arguments and runs the tile blocks.

It takes the tuple of arguments and an order: words that say how to read them, and what to run.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.cpu.runtime.driver import LaunchState, driver

#: The words of an order. ``again``: the address of the driver's function. ``serials``: that of a number that no launch has had.
_ORDER = (
    *("rows", "count", "types", "slots", "again", "launch", "arena", "serials"),
    *("allowed", "signals"),
)
_PLACES = {word: place for place, word in enumerate(_ORDER)}
_ALLOWED, _SIGNALS = _PLACES["allowed"], _PLACES["signals"]
_NUMBERS = frozenset({"count", "allowed", "signals"})
#: The result of ``run`` where the arguments are not like those before; nothing has run then.
NOT_LIKE = -1
#: The functions of Python that ``running`` calls.
IMPORTS = ("PyEval_SaveThread", "PyEval_RestoreThread")
#: Numbers of launches. Those of the driver begin at 1.
_serials = array("Q", [1 << 62])


def running(name: str, *more: str) -> str:
    """Code of ``i32 run(tuple, order)``. The function of this name reads the arguments: it is called with the tuple, the
    order's rows, their number, the address of slots, and ``more``. Then the driver's ``again`` runs the launch, without Python's
    lock; its result is that of ``run``."""
    types = {word: "i64" if word in _NUMBERS else "ptr" for word in _ORDER}
    words = "\n".join(
        f"  %{word}_at = getelementptr i64, ptr %order, i64 {place}\n"
        f"  %{word} = load {types[word]}, ptr %{word}_at"
        for word, place in _PLACES.items()
    )
    given = ", ".join(f"{types[word]} %{word}" for word in ("rows", "count", "slots", *more))
    return f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define i32 @run(ptr %tuple, ptr %order) {{
{words}
  %packed = call i32 @{name}(ptr %tuple, {given})
  %fits = icmp ne i32 %packed, 0
  br i1 %fits, label %like, label %others
like:
  %serial = atomicrmw add ptr %serials, i64 1 monotonic
  %thread = call ptr @PyEval_SaveThread()
  %result = call i32 %again(ptr %launch, ptr %arena, i64 %allowed, i64 %signals, i64 %serial)
  call void @PyEval_RestoreThread(ptr %thread)
  ret i32 %result
others:
  ret i32 {NOT_LIKE}
}}
"""


def run_function(address: int) -> Callable[..., int]:
    """``run``, which is called with Python's lock."""
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)


class LaunchOrder:
    """Launches that differ in their arguments only. ``reads``: the words for who reads arguments."""

    __slots__ = ("_address", "_keep", "_run", "_words")

    def __init__(
        self, run: Callable[..., int], reads: Mapping[str, int], state: LaunchState, arena: int
    ) -> None:
        native = driver()
        given = dict(reads)
        given["slots"], given["launch"], given["arena"] = state.slots_address, state.address, arena
        given["again"], given["serials"] = native.again_address, _serials.buffer_info()[0]
        self._words = array("Q", [given.get(word, 0) for word in _ORDER])
        self._address = self._words.buffer_info()[0]
        self._run, self._keep = run, (state.memory, native)

    def run(self, args: tuple[Any, ...], allowed: int, signals: int) -> int:
        """As the driver's ``again``, with these arguments, or NOT_LIKE."""
        words = self._words
        words[_ALLOWED], words[_SIGNALS] = allowed, signals
        return self._run(id(args), self._address)
