"""What kernels do wrong is told at the lines of their Python source."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import KernelError, RefusedError, launch, on  # noqa: E402
from tilewright.diagnostics import NamedLocation, TileIRError  # noqa: E402

HERE = str(Path(__file__).resolve())


@ct.kernel
def asserts(x):
    t = ct.load(x, (ct.bid(0),), (4,))
    ct.assert_(t < 6, "too large")  # AT asserts


@ct.kernel
def divides(x, y):
    ct.store(x, (0,), quotient(ct.load(x, (0,), (4,)), y))  # AT divides


def quotient(t, y):
    return t // (y - y)  # AT quotient


@ct.kernel
def outside(x):
    t = ct.load(x, (ct.bid(0) + 3,), (4,))  # AT outside
    ct.store(x, (0,), t)


@ct.kernel
def races(x, y):
    t = ct.load(x, (0,), (4,))
    ct.store(y, (0,), t + ct.bid(0))  # AT races


@ct.kernel
def asserts_nothing(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (2,)))


@ct.kernel
def reads_padding(x, y):
    t = ct.load(x, (0,), (8,), padding_mode=ct.PaddingMode.UNDETERMINED)
    ct.store(y, (0,), t)  # AT reads_padding


@ct.kernel
def scatters(x, i):
    ct.scatter(x, ct.load(i, (0,), (4,)), 1, check_bounds=False)  # AT scatters


def _line(mark: str) -> int:
    lines = inspect.getsource(__import__("sys").modules[__name__]).splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# AT {mark}"))


def _failing(kernel: Any, arguments: tuple[Any, ...], grid: tuple[int, ...] = (1,)) -> KernelError:
    with pytest.raises(KernelError) as caught:
        launch(0, grid, kernel, arguments)
    return caught.value


def _integers(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.int32)


@pytest.mark.parametrize(
    ("kernel", "arguments", "code", "mark"),
    [
        (asserts, (_integers(8),), "assertion-failed", "asserts"),
        (divides, (_integers(4), 1), "undefined-division", "quotient"),
        (outside, (_integers(8),), "outside-index-space", "outside"),
        (scatters, (_integers(4), _integers(4) * 1000), "invalid-address", "scatters"),
    ],
)
def test_errors_stand_at_their_lines(
    kernel: Any, arguments: tuple[Any, ...], code: str, mark: str
) -> None:
    error = _failing(kernel, arguments, (2,) if kernel is asserts else (1,))
    (first, *_) = error.diagnostics
    assert (first.code, first.file, first.line) == (code, HERE, _line(mark))
    text = Path(HERE).read_text().splitlines()[_line(mark) - 1]
    assert first.column is not None
    assert text[first.column - 1 :].startswith(("ct.", "t //")), "the column is that of the call"
    assert text.strip() in str(error), "the line of source is shown"


def test_a_failed_assertion_tells_what_was_compared() -> None:
    error = _failing(asserts, (_integers(8),), (2,))
    assert [d.message.partition(": ")[0] for d in error.diagnostics] == [
        "assertion failed in tile block (1, 0, 0) at element [2]",
        "assertion failed in tile block (1, 0, 0) at element [3]",
    ]
    assert [d.notes[-1].message for d in error.diagnostics] == [
        "6 < 6 does not hold",
        "7 < 6 does not hold",
    ]


def test_a_failed_assertion_tells_the_same_under_the_sanitizer() -> None:
    with on("reference", sanitize=True), pytest.raises(KernelError) as caught:
        ct.launch(0, (2,), asserts, (_integers(8),))
    assert "6 < 6 does not hold" in str(caught.value)


def test_an_error_as_a_string_begins_with_what_is_wrong() -> None:
    error = _failing(outside, (_integers(8),))
    assert str(error).startswith("error[outside-index-space]: index 3")


def test_functions_that_a_kernel_calls_are_told_with_their_callers() -> None:
    (diagnostic,) = _failing(divides, (_integers(4), 1)).diagnostics
    location = diagnostic.location
    assert isinstance(location, NamedLocation)
    assert location.what == "quotient"
    caller = diagnostic.notes[0]
    assert caller.message == "called here, by divides"
    assert isinstance(caller.location, NamedLocation)
    assert caller.location.line == _line("divides")


@pytest.mark.parametrize(
    ("kernel", "arguments", "grid", "code"),
    [
        (races, (_integers(4), _integers(4)), (2,), "race"),
        (reads_padding, (_integers(5), _integers(8)), (1,), "uninitialized-value"),
    ],
)
def test_findings_of_the_sanitizer_stand_at_their_lines(
    kernel: Any, arguments: tuple[Any, ...], grid: tuple[int, ...], code: str
) -> None:
    launch(0, grid, kernel, arguments)  # nothing is found without it
    with on(sanitize=True), pytest.raises(KernelError) as caught:
        ct.launch(0, grid, kernel, arguments)
    (diagnostic,) = caught.value.diagnostics
    mark = kernel._pyfunc.__name__
    assert (diagnostic.code, diagnostic.file, diagnostic.line) == (code, HERE, _line(mark))
    assert "y[0:" in str(caught.value) or code != "race", "arrays have their Python names"


def test_arrays_that_overlap_against_cutiles_promise() -> None:
    x = _integers(8)
    with on(sanitize=True), pytest.raises(KernelError) as caught:
        ct.launch(0, (1,), asserts_nothing, (x, x[2:]))
    first = caught.value.diagnostics[0]
    assert first.code == "noalias-violation"
    assert first.message.startswith("%x and %y overlap in memory")
    assert first.file == HERE


def test_a_sound_kernel_passes_the_sanitizer_under_several_schedules() -> None:
    @ct.kernel
    def fine(x, y):
        i = ct.bid(0)
        ct.store(y, (i,), ct.load(x, (i,), (4,)) + 1)

    x, y = _integers(16), np.zeros(16, np.int32)
    with on(sanitize=True, seeds=3):
        ct.launch(0, (4,), fine, (x, y))
    assert (y == x + 1).all()


@ct.kernel
def divides_unsigned(x):
    t = ct.load(x, (0,), (4,))
    ct.store(x, (0,), t // t)  # AT divides_unsigned


def test_what_the_next_compiler_refuses_is_refused_as_by_cutile() -> None:
    x = np.ones(4, np.uint32)
    with pytest.raises(ct.TileCompilerExecutionError, match="is not allowed with") as caught:
        launch(0, (1,), divides_unsigned, (x,))
    assert f'"{HERE}", line {_line("divides_unsigned")}, col 23' in str(caught.value)
    assert "\nhelp: cuTile's `//` does not divide unsigned integers: divide" in str(caught.value)
    for what_helps in (divides_as_signed, shifts):
        launch(0, (1,), what_helps, (x,))


@ct.kernel
def divides_as_signed(x):
    t = ct.astype(ct.load(x, (0,), (4,)), ct.int64)
    ct.store(x, (0,), ct.astype(t // 3, ct.uint32))


@ct.kernel
def shifts(x):
    ct.store(x, (0,), ct.load(x, (0,), (4,)) >> 2)


def test_kernel_errors_are_errors_of_the_run_time_and_of_tile_ir() -> None:
    error = _failing(outside, (_integers(8),))
    assert isinstance(error, RuntimeError)
    assert isinstance(error, TileIRError)


def test_the_sanitizer_needs_the_reference_machine() -> None:
    with pytest.raises(
        RefusedError, match=r"machine 'cpu' has no option `sanitize`.*known to reference"
    ):
        on("cpu", sanitize=True)


@pytest.mark.parametrize("name", ["nothing", "sim", "cpu:x", "reference:sm_90", ""])
def test_machines_that_there_are_not(name: str) -> None:
    with pytest.raises(
        RefusedError, match=r"there is no machine .*reference, cpu, sim:ARCH and cuda"
    ):
        on(name)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("sim:sm_55", "not an architecture of the simulator"),
        ("cuda", "GPU|driver|cuda-bindings"),
    ],
)
def test_a_machine_that_cannot_be_had_is_refused_before_anything_runs(
    machine: str, words: str
) -> None:
    if machine == "cuda" and _has_gpu():
        pytest.skip("there is a GPU")
    x = _integers(8)
    with pytest.raises(RefusedError, match=words):
        launch(0, (1,), outside, (x,), machine=machine)
    assert (x == _integers(8)).all()


def _has_gpu() -> bool:
    from tilewright.gpu.driver import open_gpu

    try:
        open_gpu()
    except TileIRError:
        return False
    return True


@ct.kernel
def tiles_of_no_axis(x):  # AT tiles_of_no_axis
    ct.store(x, (), ct.load(x, (), ()) + 1)


def test_what_bytecode_cannot_hold_is_refused_as_by_nvidias_compiler() -> None:
    with pytest.raises(ct.TileCompilerExecutionError, match="0-dimension tile") as caught:
        launch(0, (1,), tiles_of_no_axis, (np.zeros((), np.float32),))
    assert caught.value.loc.filename == HERE
    assert caught.value.loc.line == _line("tiles_of_no_axis") - 1  # that of the decorator


@pytest.mark.parametrize("machine", ["reference", "cpu"])
def test_arrays_that_are_wrong_for_the_machine_are_called_by_their_names(machine: str) -> None:
    x, y = np.zeros((1, 4), np.int32), np.zeros(4, np.int32)
    y.flags.writeable = False
    with pytest.raises(KernelError, match=r"y is (a )?read-only") as caught:
        launch(0, (1,), asserts_nothing, (x[0], y), machine=machine)
    assert caught.value.diagnostics[0].file == HERE
    odd = np.zeros(17, np.uint8)[1:].view(np.int32)
    with pytest.raises(KernelError, match=r"(y starts 1 bytes past|in y is not) a multiple of"):
        launch(0, (1,), asserts_nothing, (x[0], odd), machine=machine)


@ct.kernel
def converts(x, y):
    ct.store(y, (0,), ct.load(x, (0,), (4,)).astype(ct.float16))  # AT converts


@ct.kernel
def converts_as_a_function(x, y):
    ct.store(y, (0,), ct.astype(ct.load(x, (0,), (4,)), ct.float16))  # AT converts_as_a_function


@pytest.mark.parametrize("kernel", [converts, converts_as_a_function])
def test_methods_of_tiles_are_told_where_they_are_called(kernel: Any) -> None:
    """cuTile makes them of functions of its own, which is nothing to the author of a kernel."""
    args = np.full(4, 70000, np.float32), np.zeros(4, np.float16)
    with on("reference", find_nan=True), pytest.raises(KernelError) as caught:
        launch(0, (1,), kernel, args)
    (found,) = caught.value.diagnostics
    assert found.code == "conversion-overflow"
    assert (found.file, found.line) == (HERE, _line(kernel._pyfunc.__name__))
    assert "cuda/tile" not in str(caught.value)
