"""The race detector on litmus programs: every schedule of each is tried.

A program is a list of tile blocks; a block is a generator that yields accesses and gets back the
value read and the history behind the access's token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest

from tilewright.machine.memory import Allocation
from tilewright.machine.sanitize.events import EMPTY, History
from tilewright.machine.sanitize.races import Race, RaceDetector

ORDERS = {"wk": "weak", "rx": "relaxed", "aq": "acquire", "rl": "release", "ar": "acq_rel"}


@dataclass(frozen=True)
class Access:
    """One access: R, W, an atomic ``add``, or a compare-and-swap of 0 with the value."""

    kind: str
    place: str
    order: str
    token: History = EMPTY
    value: int = 1
    scope: str = "device"
    size: int = 4
    lanes: tuple[int, ...] = (0,)


@pytest.fixture(autouse=True, params=[1 << 16, 1], ids=["", "sweeping"])
def sweeps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing depends on when the detector forgets what it does not need any more."""
    monkeypatch.setattr("tilewright.machine.sanitize.races._MIN_STATES", request.param)


Block = Generator[Access, tuple[int, History], None]
Program = list[Callable[[], Block]]


class World:
    """Memory, and the detector that watches it."""

    def __init__(self) -> None:
        self.races: list[Race] = []
        self.detector = RaceDetector(self.races.append)
        self.memory: dict[str, int] = {}
        self.bases: dict[str, int] = {}

    def place(self, name: str) -> Allocation:
        base = self.bases.setdefault(name, 0x1000 * (len(self.bases) + 1))
        return Allocation(base, np.zeros(64, np.uint8), name)

    def perform(self, block: int, access: Access) -> tuple[int, History]:
        reads, writes = access.kind != "W", access.kind != "R"
        old = self.memory.get(access.place, 0)
        wrote = None
        if access.kind == "cas":
            wrote = np.array([old == 0])
            if old == 0:
                self.memory[access.place] = access.value
        elif writes:
            added = old if access.kind == "add" else 0
            self.memory[access.place] = added + access.value
        order = ORDERS[access.order]
        event = self.detector.event(
            block,
            None,
            ordering=order,
            scope="" if order == "weak" else access.scope,
            size=access.size,
            reads=reads,
            writes=writes,
        )
        offsets = np.array(access.lanes) * access.size
        history = self.detector.access(
            event,
            access.token,
            self.place(access.place),
            offsets,
            may_repeat=True,
            wrote=wrote,
        )
        return old, history.including(event)


def run(program: Program, schedule: list[int]) -> tuple[list[Race], list[int]]:
    """Run with the blocks chosen by ``schedule``, then by number; gives races and the choices'
    sizes."""
    world = World()
    live = {number: make() for number, make in enumerate(program)}
    answers: dict[int, tuple[int, History] | None] = dict.fromkeys(live)
    sizes: list[int] = []
    for step in count():
        pending = sorted(live)
        if not pending:
            return world.races, sizes
        sizes.append(len(pending))
        block = pending[schedule[step] if step < len(schedule) else 0]
        try:
            access = live[block].send(answers[block])  # pyright: ignore[reportArgumentType]
        except StopIteration:
            del live[block]
            continue
        answers[block] = world.perform(block, access)
    raise AssertionError


def races_somewhere(program: Program) -> bool:
    """Whether some schedule shows a race."""
    schedule: list[int] = []
    while True:
        found, sizes = run(program, schedule)
        if found:
            return True
        choices = schedule + [0] * (len(sizes) - len(schedule))
        while choices and choices[-1] == sizes[len(choices) - 1] - 1:
            choices.pop()
        if not choices:
            return False
        choices[-1] += 1
        schedule = choices


def passing(
    *, token: bool = True, load_token: bool = True, flag: str = "", scope: str = "device"
) -> Program:
    """Message passing, with one thing left out or weakened."""

    def sender() -> Block:
        _, after = yield Access("W", "x", "wk")
        release = flag or "rl"
        yield Access("W", "f", release, after if token else EMPTY, scope=scope)

    def receiver() -> Block:
        seen, after = yield Access("R", "f", flag or "aq", scope=scope)
        if seen:
            yield Access("R", "x", "wk", after if load_token else EMPTY)

    return [sender, receiver]


def chain(middle: str, *, keeps: bool = True) -> Program:
    """A release, something in the middle, an acquire."""

    def first() -> Block:
        _, after = yield Access("W", "x", "wk")
        yield Access("W", "f", "rl", after)

    def between() -> Block:
        if middle == "add":
            yield Access("add", "f", "rx")
        elif middle == "store":
            seen, _ = yield Access("R", "f", "rx")
            if seen == 1:
                yield Access("W", "f", "rx", value=2)
        else:
            seen, after = yield Access("R", "f", "aq")
            if seen:
                yield Access("W", "g", "rl", after if keeps else EMPTY)

    def last() -> Block:
        flag, wanted = ("g", 1) if middle == "transitive" else ("f", 2)
        seen, after = yield Access("R", flag, "aq")
        if seen == wanted:
            yield Access("R", "x", "wk", after)

    return [first, between, last]


def locked(*, token: bool = True) -> Program:
    """Two blocks add to x under a lock."""

    def block() -> Block:
        old, after = yield Access("cas", "f", "aq")
        if old == 0:
            value, after = yield Access("R", "x", "wk", after if token else EMPTY)
            _, after = yield Access("W", "x", "wk", after, value=value + 1)
            yield Access("W", "f", "rl", after, value=0)

    return [block, block]


def straight(*accesses: tuple[Access, tuple[int, ...]]) -> Program:
    """One block; each access takes the joined tokens of the accesses named by number."""

    def block() -> Block:
        tokens: list[History] = []
        for access, after in accesses:
            token = EMPTY.joined(tokens[i] for i in after)
            _, history = yield replace(access, token=token)
            tokens.append(history)

    return [block]


def each(*blocks: list[Access]) -> Program:
    """Blocks of accesses without tokens."""

    def make(accesses: list[Access]) -> Callable[[], Block]:
        def block() -> Block:
            for access in accesses:  # noqa: UP028
                yield access

        return block

    return [make(accesses) for accesses in blocks]


W, R = "W", "R"

RACE_FREE: dict[str, Program] = {
    "store buffering, relaxed": each(
        [Access(W, "x", "rx"), Access(R, "y", "rx")], [Access(W, "y", "rx"), Access(R, "x", "rx")]
    ),
    "message passing": passing(),
    "relaxed reads of a relaxed write": each(
        [Access(W, "x", "rx")], [Access(R, "x", "rx"), Access(R, "x", "rx")]
    ),
    "ordered stores": straight((Access(W, "x", "wk"), ()), (Access(W, "x", "wk"), (0,))),
    "relaxed stores of one block": straight(
        (Access(W, "x", "rx", scope="tl_blk"), ()), (Access(W, "x", "rx", scope="tl_blk"), ())
    ),
    "read, then write by token": straight((Access(R, "x", "wk"), ()), (Access(W, "x", "wk"), (0,))),
    "atomic additions": each(*[[Access("add", "x", "rx")]] * 3),
    "lock": locked(),
    "release chain through an atomic": chain("add"),
    "neighbouring elements": each(
        [Access(W, "x", "wk", lanes=(0, 1), size=2)], [Access(W, "x", "wk", lanes=(2, 3), size=2)]
    ),
    "relaxed store of two lanes to one address": straight(
        (Access(W, "x", "rx", lanes=(0, 0), scope="tl_blk"), ())
    ),
    "atomic of two lanes on one address": straight((Access("add", "x", "rx", lanes=(0, 0)), ())),
    "reads only": each([Access(R, "x", "wk")], [Access(R, "x", "wk"), Access(R, "x", "wk")]),
    "transitive release": chain("transitive"),
    "two reads joined before a write": straight(
        (Access(R, "x", "wk"), ()), (Access(R, "x", "wk"), ()), (Access(W, "x", "wk"), (0, 1))
    ),
    "chain through a read": straight(
        (Access(W, "x", "wk"), ()), (Access(R, "y", "wk"), (0,)), (Access(W, "x", "wk"), (1,))
    ),
}

RACY: dict[str, Program] = {
    "message passing without the sender's token": passing(token=False),
    "message passing by control dependence": passing(load_token=False),
    "message passing by relaxed flags": passing(flag="rx"),
    "message passing in tile block scope": passing(scope="tl_blk"),
    "message passing by weak flags": passing(flag="wk"),
    "unordered stores": straight((Access(W, "x", "wk"), ()), (Access(W, "x", "wk"), ())),
    "read, then write by data": straight((Access(R, "x", "wk"), ()), (Access(W, "x", "wk"), ())),
    "atomic against a weak read": each([Access("add", "x", "rx")], [Access(R, "x", "wk")]),
    "lock without its token": locked(token=False),
    "plain store breaks the release chain": chain("store"),
    "transitive release without a token": chain("transitive", keeps=False),
    "sizes differ": each([Access(W, "x", "rx", size=4)], [Access(R, "x", "rx", size=8)]),
    "weak store of two lanes to one address": straight((Access(W, "x", "wk", lanes=(3, 3)), ())),
    "write, then read without token": straight(
        (Access(W, "x", "wk"), ()), (Access(R, "x", "wk"), ())
    ),
    "one of two reads joined": straight(
        (Access(R, "x", "wk"), ()), (Access(R, "x", "wk"), ()), (Access(W, "x", "wk"), (1,))
    ),
    "overlapping tiles": each(
        [Access(W, "x", "wk", lanes=(0, 1, 2))], [Access(W, "x", "wk", lanes=(2, 3))]
    ),
}


@pytest.mark.parametrize("name", RACE_FREE)
def test_no_schedule_of_a_race_free_program_shows_a_race(name: str) -> None:
    assert not races_somewhere(RACE_FREE[name])


@pytest.mark.parametrize("name", RACY)
def test_some_schedule_of_a_racy_program_shows_it(name: str) -> None:
    assert races_somewhere(RACY[name])


def test_a_race_names_both_events_and_the_bytes() -> None:
    found, _ = run(RACY["overlapping tiles"], [])
    (race,) = found
    assert (race.first.block, race.second.block) == (0, 1)
    assert race.cells.tolist() == [8] and race.size == 4


def test_cells_shrink_when_a_smaller_access_comes() -> None:
    races: list[Race] = []
    detector = RaceDetector(races.append)
    for block, size, offsets in ((0, 8, [0, 8]), (1, 2, [6])):
        event = detector.event(
            block, None, ordering="weak", scope="", size=size, reads=False, writes=True
        )
        allocation = Allocation(0, np.zeros(16, np.uint8), "x")
        detector.access(event, EMPTY, allocation, np.array(offsets))
    (race,) = races
    assert race.cells.tolist() == [6] and race.size == 2
