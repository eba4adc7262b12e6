"""Ends a launch early: on Ctrl-C and other signals, and at time limits.

Python runs signal handlers on the main thread, between its own instructions. While that thread runs tile blocks there are
none. So a thread of ours, the watcher, asks the launch of the main thread for attention a few times a second; the
kernel's loops see that, and the one on the main thread calls back into Python, where handlers run. What a handler raises
ends the launch. The watcher also stops launches at their time limit.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from types import GeneratorType
from typing import cast

from tilewright.cpu.abi import ATTEND_SYMBOL, RT_SIGNALS, RT_STOP, RT_WHERE
from tilewright.cpu.runtime.driver import SIGNALS, LaunchState
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once
from tilewright.diagnostics import TileIRError
from tilewright.launching.options import UNSUPPORTED_OPTION

#: Seconds between two looks of the watcher, and how often it looks in vain before it sleeps.
_PERIOD, _IDLE_LOOKS = 0.1, 20
_GO_ON, _STOP = 1, 0

_IR = f"""
define i32 @{ATTEND_SYMBOL}(ptr %rt, i64 %loop, ptr %block) {{
  %stop_at = getelementptr ptr, ptr %rt, i32 {RT_STOP}
  %stop = load ptr, ptr %stop_at
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  br i1 %stopping, label %leave, label %look
look:
  %signals_at = getelementptr ptr, ptr %rt, i32 {RT_SIGNALS}
  %signals = load ptr, ptr %signals_at
  %none = icmp eq ptr %signals, null
  br i1 %none, label %go_on, label %handle
handle:
  %attention = getelementptr i32, ptr %stop, i32 1
  store atomic i32 0, ptr %attention monotonic, align 4
  %answer = call i32 %signals()
  %stays = icmp ne i32 %answer, {_STOP}
  br i1 %stays, label %go_on, label %end
end:
  store atomic i32 1, ptr %stop monotonic, align 4
  br label %leave
leave:
  %in_none = icmp eq i64 %loop, 0
  br i1 %in_none, label %left, label %note
note:
  %where_at = getelementptr ptr, ptr %rt, i32 {RT_WHERE}
  %where = load ptr, ptr %where_at
  %exchange = cmpxchg ptr %where, i64 0, i64 %loop monotonic monotonic
  %first = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %first, label %place, label %left
place:
  %plane = load i64, ptr %block, align 4
  %plane_to = getelementptr i64, ptr %where, i32 1
  store i64 %plane, ptr %plane_to
  %z_at = getelementptr i32, ptr %block, i32 2
  %z = load i32, ptr %z_at
  %z_wide = zext i32 %z to i64
  %z_to = getelementptr i64, ptr %where, i32 2
  store i64 %z_wide, ptr %z_to
  br label %left
left:
  ret i32 1
go_on:
  ret i32 0
}}
"""


@once
def _library() -> Library:
    return library(_IR, [ATTEND_SYMBOL])


@once
def attention_symbols() -> Mapping[str, int]:
    """The address of what loops call when they are asked for attention, by its name."""
    return {ATTEND_SYMBOL: _library().address(ATTEND_SYMBOL)}


def _nothing() -> None:
    """A call: one of the places where Python looks for signals."""


class Signals:
    """Lets Python run the handlers of signals, and keeps what one raises."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        #: It runs while signals are handled.
        self.steps = cast("GeneratorType[int, None, None]", self._handle())
        next(self.steps)
        # Python looks for signals as soon as a function begins: before a ``try`` in it, from where
        # ctypes would print what a handler raises and forget it. A generator is resumed inside.
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int32)(self.steps.__next__)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _handle(self) -> Generator[int, None, None]:
        answer = _GO_ON
        while True:
            try:
                yield answer
                _nothing()
                answer = _GO_ON
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001 (nothing may pass through native code)
                self.raised, answer = error, _STOP

    def take_raised(self) -> BaseException | None:
        """The exception of a signal's handler, once; None where there was none."""
        error, self.raised = self.raised, None
        return error


@dataclass(slots=True)
class _Limit:
    state: LaunchState
    deadline: float


@dataclass(slots=True)
class _Guard:
    state: LaunchState
    is_over: Callable[[], bool]


@dataclass(slots=True)
class Watcher:
    """The thread that looks after launches; it is started by the first, and sleeps when there are none."""

    signals: Signals = field(default_factory=Signals)
    #: Launches of the main thread; reports of one may make others.
    _main_launches: list[LaunchState] = field(default_factory=list)
    _limits: list[_Limit] = field(default_factory=list)
    _guards: list[_Guard] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _is_awake: bool = False
    _called: threading.Event = field(default_factory=threading.Event)
    _main: int = field(default_factory=lambda: threading.main_thread().ident or 0)

    def begin(self, state: LaunchState) -> None:
        """The calling thread is about to run blocks of a launch. On the main thread signals are handled
        meanwhile, unless a handler makes the launch. Say ``end`` in any case."""
        if self.begin_again(state):
            state.words[SIGNALS] = self.signals.address

    def begin_again(self, state: LaunchState) -> bool:
        """The same for who says himself what handles signals: whether they are to be handled, and then say
        ``end``."""
        if get_ident() != self._main or self.signals.steps.gi_running:
            return False
        self._main_launches.append(state)
        if not self._is_awake:
            self._wake()
        return True

    def end(self, state: LaunchState) -> None:
        """The calling thread is back from a launch that began with ``begin``.

        Raises what a handler of a signal has raised meanwhile.
        """
        launches = self._main_launches
        if launches and launches[-1] is state:
            launches.pop()
        elif state in launches:
            launches.remove(state)
        else:
            return
        if self.signals.raised is not None:
            error = self.signals.take_raised()
            assert error is not None
            raise error

    def limited(self, state: LaunchState, seconds: float) -> Callable[[], None]:
        """Stop a launch, as ``expired``, after ``seconds``; call the result when it has ended.

        Raises ``TileIRError`` (``unsupported-option``) where the system starts no thread for that.
        """
        limit = _Limit(state, time.monotonic() + seconds)
        self._limits.append(limit)
        error = self._wake()
        if error is not None:
            self._limits.remove(limit)
            raise TileIRError.single(
                UNSUPPORTED_OPTION, f"a time limit needs a thread to keep it: {error}"
            )
        return lambda: self._limits.remove(limit)

    def guarded(self, state: LaunchState, is_over: Callable[[], bool]) -> Callable[[], None]:
        """Stop a launch when that says so, which is asked a few times a second; call the result when it
        has ended. Nobody asks where the system starts no thread for it."""
        guard = _Guard(state, is_over)
        self._guards.append(guard)
        self._wake()
        return lambda: self._guards.remove(guard)

    def _wake(self) -> RuntimeError | None:
        """Have the thread look; why there is none, where the system starts no more."""
        if self._thread is None:
            thread = threading.Thread(target=self._watch, name="tilewright watch", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                return error
            self._thread = thread
        self._called.set()
        return None

    def _watch(self) -> None:
        idle = 0
        while True:
            self._is_awake = idle < _IDLE_LOOKS
            # Who comes from now on finds that nobody is awake; who came before is seen here.
            if not (self._is_awake or self._main_launches or self._limits or self._guards):
                self._called.wait()
                self._called.clear()
                idle = 0
                continue
            idle = 0 if self._look() else idle + 1
            time.sleep(self._pause())

    def _look(self) -> bool:
        """Ask for attention, and stop whose time is over; whether there was any launch."""
        running = list(self._main_launches)
        for state in running:
            state.attract()
        now = time.monotonic()
        for limit in list(self._limits):
            if now >= limit.deadline and not limit.state.expired:
                limit.state.expired = True
                limit.state.stop = 1
        for guard in list(self._guards):
            if not guard.state.stop and guard.is_over():
                guard.state.stop = 1
        return bool(running or self._limits or self._guards)

    def _pause(self) -> float:
        now = time.monotonic()
        waits = [limit.deadline - now for limit in list(self._limits) if not limit.state.expired]
        return max(0.001, min([_PERIOD, *waits]))


WATCHER = Watcher()
"""The watcher of this process."""

if hasattr(os, "register_at_fork"):
    # Threads do not live on in a forked process; begin anew.
    os.register_at_fork(after_in_child=lambda: WATCHER.__init__())
