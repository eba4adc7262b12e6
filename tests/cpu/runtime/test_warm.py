"""Launches like the one before take a short way, which looks at their arguments as the long one does."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.runtime.argument_fast_path import are_apart, fast_path
from tilewright.cpu.runtime.native_packing import native_packer
from tilewright.cpu.runtime.packing import Packer
from tilewright.cpu.runtime.warm import WarmLaunch
from tilewright.diagnostics import TileIRError
from tilewright.launching.interfaces import PassedType
from tilewright.launching.result import RunResult, result_of

_EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "vector_add.tileir"
_N = 200
_GRID = (2, 1, 1)


def _arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (*rng.random((2, _N)).astype(np.float32), np.zeros(_N, np.float32))  # pyright: ignore[reportReturnType]


@pytest.fixture
def program() -> Program:
    found = Program(tilewright.parse(_EXAMPLE.read_text()), LaunchOptions(threads=1))
    found.launch("vector_add", _GRID, (*_arrays(), _N))
    return found


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The grids of launches that took the long way."""
    found: list[object] = []
    pack = Packer.pack

    def counted(self: Packer, grid: object, args: Sequence[object], **how: Any) -> Any:
        found.append(grid)
        return pack(self, grid, args, **how)

    monkeypatch.setattr(Packer, "pack", counted)
    return found


def test_other_arrays_and_numbers_take_the_short_way(
    program: Program, long_ways: list[object]
) -> None:
    for length in (_N, 7, 0, 128):
        x, y, out = _arrays()
        result = program.launch("vector_add", _GRID, (x, y, out, length))
        assert (out[:length] == (x + y)[:length]).all()
        assert not out[length:].any()
        assert [id(each) for each in result.outputs] == [id(x), id(y), id(out)]
    assert long_ways == []


def test_an_array_that_has_moved_is_found_where_it_is(
    program: Program, long_ways: list[object]
) -> None:
    x, y, out = _arrays()
    out = np.zeros(8, np.float32)
    program.launch("vector_add", _GRID, (x, y, out, 8))
    out.resize(1 << 16, refcheck=False)
    program.launch("vector_add", _GRID, (x, y, out, _N))
    assert (out[:_N] == x + y).all()
    assert long_ways == []


def test_an_equal_grid_is_the_same_and_another_is_not(
    program: Program, long_ways: list[object]
) -> None:
    x, y, out = _arrays()
    program.launch("vector_add", (*_GRID[:1], 1, 1), (x, y, out, _N))
    assert long_ways == []
    program.launch("vector_add", (1, 1, 1), (x, y, out, _N))
    assert long_ways == [(1, 1, 1)]
    with pytest.raises(TileIRError):
        program.launch("vector_add", (1, True, 1), (x, y, out, _N))


def _refused() -> dict[str, tuple[object, ...]]:
    x, y, out = _arrays()
    locked = np.zeros(_N, np.float32)
    locked.flags.writeable = False
    whole = np.zeros(2 * _N, np.float32)
    odd = np.zeros(4 * _N + 4, np.uint8)[1 : 4 * _N + 1].view(np.float32)
    return {
        "read-only": (x, y, locked, _N),
        "other elements": (x, y, out.astype(np.float64), _N),
        "overlap": (whole[:_N], y, whole[_N // 2 : _N // 2 + _N], _N),
        "the same": (x, y, x, _N),
        "misaligned": (x, y, odd, _N),
        "between elements": (x, y, np.zeros((_N, 6), np.uint8)[:, :4].view(np.float32), _N),
        "no elements": (x, y, out[:0], _N),
        "overlap, backwards": (whole[_N - 1 :: -1], y, whole[_N // 2 : _N // 2 + _N], _N),
        "too few": (x, y, out),
        "too many": (x, y, out, _N, _N),
        "a float": (x, y, out, 1.0),
        "a large number": (x, y, out, 1 << 40),
        "a huge number": (x, y, out, 1 << 80),
        "text": (x, y, "out", _N),
    }


@pytest.mark.parametrize("name", _refused())
def test_what_the_long_way_refuses_is_refused(program: Program, name: str) -> None:
    args = _refused()[name]
    cold = Program(program.module, LaunchOptions(threads=1))
    with pytest.raises(TileIRError) as expected:
        cold.launch("vector_add", _GRID, args)
    with pytest.raises(TileIRError) as found:
        program.launch("vector_add", _GRID, args)
    assert str(found.value) == str(expected.value)


def test_what_only_the_long_way_knows_is_computed(
    program: Program, long_ways: list[object]
) -> None:
    x, y, _ = _arrays()
    for out, overlap in ((np.zeros(_N, np.float32), False), (x, True)):
        expected = x + y
        options = LaunchOptions(allow_overlap=overlap, threads=1)
        program.launch("vector_add", _GRID, [x, y, out, np.int32(_N)], options)
        assert (out == expected).all()
    assert len(long_ways) == 2


def test_arrays_that_are_only_read_may_overlap(program: Program, long_ways: list[object]) -> None:
    """``add(x, x, out)`` is an ordinary call: it takes the short way, with the code for arrays that are apart."""
    whole, out = np.arange(2 * _N, dtype=np.float32), np.zeros(_N, np.float32)
    x = whole[:_N]
    for y in (x, whole[_N // 2 : _N // 2 + _N]):
        program.launch("vector_add", _GRID, (x, y, out, _N))
        assert (out == x + y).all()
    assert not long_ways
    with pytest.raises(TileIRError):
        program.launch("vector_add", _GRID, (x, whole[:_N], x, _N))


@pytest.mark.parametrize("grid", [2, (2,), [2], [2, 1], (2, 1, 1)], ids=repr)
@pytest.mark.parametrize("kind", [tuple, list])
def test_grids_and_arguments_of_every_form_take_the_short_way(
    kind: type, grid: Any, program: Program, long_ways: list[object]
) -> None:
    for _ in range(3):
        x, y, out = _arrays()
        result = program.launch("vector_add", grid, kind([x, y, out, _N]))
        assert (out == x + y).all() and result.outputs[2] is out
    assert long_ways in ([], [grid])
    with pytest.raises(TileIRError):
        program.launch("vector_add", True, kind([*_arrays(), _N]))
    program.launch("vector_add", 1, kind([*_arrays(), _N]))
    assert long_ways[-1] == 1


def _strided() -> dict[str, np.ndarray]:
    square = np.zeros((40, 30), np.float32)
    return {
        "every other": np.zeros(2 * _N, np.float32)[::2],
        "backwards": np.zeros(2 * _N, np.float32)[_N::-1],
        "turned": square.T,
        "a part": square[5:, 3:9],
        "one row": square[2:3, ::7],
        "repeated": np.lib.stride_tricks.as_strided(square, (4, 300), (0, 4)),
    }


@pytest.mark.parametrize("name", _strided())
def test_strided_arrays_take_the_short_way_to_the_same_memory(
    name: str, program: Program, long_ways: list[object]
) -> None:
    """Code sees the memory from the first element on, as the long way says."""
    x, y, _ = _arrays()
    found = {way: _strided()[name] for way in ("short", "long")}
    length = 10
    program.launch("vector_add", _GRID, (x, y, found["short"], length))
    assert long_ways == []
    options = LaunchOptions(threads=1)
    program.launch("vector_add", _GRID, (x, y, found["long"], length), options)
    assert len(long_ways) == 1
    short, long = (each if each.base is None else each.base for each in found.values())
    np.testing.assert_array_equal(np.ravel(short), np.ravel(long))


def test_strided_arrays_that_interleave_are_left_to_the_long_way(
    program: Program, long_ways: list[object]
) -> None:
    whole = np.zeros(4 * _N, np.float32)
    program.launch("vector_add", _GRID, (whole[::2], whole[::2], whole[1::2], 1))
    assert len(long_ways) == 1


@pytest.mark.parametrize("number", [np.int32, np.int64, np.uint8])
def test_numbers_of_numpy_take_the_short_way(
    number: type, program: Program, long_ways: list[object]
) -> None:
    x, y, out = _arrays()
    program.launch("vector_add", _GRID, (x, y, out, number(100)))
    assert (out[:100] == (x + y)[:100]).all() and not out[100:].any()
    assert long_ways == []
    with pytest.raises(TileIRError):
        program.launch("vector_add", _GRID, (x, y, out, np.bool_(True)))


@pytest.mark.parametrize(
    ("written", "apart"),
    [((False, False), True), ((True, False), False), ((False, True), False), ((True, True), False)],
)
def test_who_is_apart(written: tuple[bool, bool], apart: bool) -> None:
    first, second = written
    assert are_apart([(0, 10, first), (5, 15, second)]) == apart
    assert are_apart([(5, 15, first), (0, 10, second)]) == apart
    assert are_apart([(0, 10, first), (0, 10, second), (10, 20, True)]) == apart
    # A short range in between does not hide that the long one reaches further.
    assert are_apart([(0, 100, first), (10, 20, False), (50, 60, second)]) == (
        apart if not first else False
    )


def test_launches_at_once_do_not_share_what_is_kept(program: Program) -> None:
    wrong: list[int] = []

    def launch(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x, y = rng.random((2, _N)).astype(np.float32)
            out = np.zeros(_N, np.float32)
            program.launch("vector_add", _GRID, (x, y, out, _N))
            if not (out == x + y).all():
                wrong.append(seed)

    threads = [threading.Thread(target=launch, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_launch_that_begins_during_another_does_not_take_its_words(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the other one has begun after this one had looked whether there was one."""
    kept = program._warm["vector_add"]  # pyright: ignore[reportPrivateUsage]
    slots = tuple(kept.state.words[kept._offset // 8 :])  # pyright: ignore[reportPrivateUsage]
    running, may_end = threading.Event(), threading.Event()
    runs: list[str] = []

    def run(self: WarmLaunch, state: object, *, alone: bool) -> bool:
        assert alone
        runs.append(threading.current_thread().name)
        running.set()
        assert may_end.wait(timeout=10)
        return True

    class _Packed:
        """Arguments that are looked at before the launch is begun."""

        def __init__(self) -> None:
            self.slots = slots

        @property
        def distinct(self) -> bool:
            if threading.current_thread() is not other:
                other.start()
                assert running.wait(timeout=30)
            return True

    packed: Any = _Packed()
    other = threading.Thread(target=kept.launch_packed, args=(_GRID, packed), name="other")
    monkeypatch.setattr(WarmLaunch, "_run", run)
    taken = kept.launch_packed(_GRID, packed)
    may_end.set()
    other.join()
    assert not taken
    assert runs == ["other"]


@pytest.mark.parametrize(
    ("element", "values"),
    [
        ("i8", [0, -128, 255, 256, -129, True, 1.0, None]),
        ("i32", [5, -(2**31), 2**32 - 1, 2**32, np.int32(1)]),
        ("i64", [-(2**63), 2**63 - 1, 2**64 - 1, 2**64]),
        (
            "f32",
            [0.1, -0.0, 1, 2**24 + 1, -(2**63), 3.4e38, 3.5e38, 1e-46, float("inf"), float("nan")],
        ),
        ("f64", [0.1, 1e308, float("inf"), float("nan"), 2, 2**53 + 1, 2**63, 10**400]),
    ],
)
def test_numbers_are_packed_as_by_the_other_ways(element: str, values: list[object]) -> None:
    types = [PassedType(element)]
    native, quick = native_packer(types, ()), fast_path(types, ())
    assert native is not None
    for value in values:
        slots = np.full(1, 77, np.uint64)
        if native.pack((value,), slots.ctypes.data):
            assert quick((value,)) == ([int(slots[0])], True), value
        else:
            assert (
                type(value) is not int
                or quick((value,)) is None
                or abs(value) >= 2**63
                or element[0] == "f"
            )


def test_results_are_those_of_the_class() -> None:
    outputs = (np.zeros(2, np.float32),)
    one, other = result_of(outputs), RunResult(outputs)
    for each in dataclasses.fields(RunResult):
        assert getattr(one, each.name) is getattr(other, each.name)
