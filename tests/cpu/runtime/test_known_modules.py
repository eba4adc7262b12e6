"""Modules that are known from the disk: launched without being read, with the results and errors of those that are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions, TileIRError
from tilewright.cpu.runtime import kernels
from tilewright.cpu.runtime.module_records import find_module, module_key
from tilewright.cpu.runtime.modules import LaunchedModule
from tilewright.diagnostics import render
from tilewright.launching.described import ArrayValue, Layout
from tilewright.launching.disk_cache import DiskCache
from tilewright.launching.machine import machine_named
from tilewright.launching.sources import ModuleSource

TEXT = """
cuda_tile.module @kernels {
  global @factors alignment = 128 <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
  entry @scale(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %by: tile<f32>, %n: tile<i32>) {
    %v, %s = load_ptr_tko weak %x : tile<ptr<f32>> -> tile<f32>, token
    %w = mulf %v, %by : tile<f32>
    %t = store_ptr_tko weak %out, %w : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @factor(%out: tile<ptr<f32>>) {
    %p = get_global @factors : tile<ptr<f32>>
    %v, %s = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %t = store_ptr_tko weak %out, %v : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @row(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %xs = make_tensor_view %x, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %rows = make_partition_view %xs : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %v, %s = load_view_tko weak %rows[%zero] : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    %outs = make_tensor_view %out, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %to = make_partition_view %outs : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %t = store_view_tko weak %v, %to[%zero] : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }
  entry @tell(%n: tile<i32>) {
    print_tko "%d;", %n : tile<i32> -> token
    %zero = constant <i32: 0> : tile<i32>
    %ok = cmpi greater_than %n, %zero, signed : tile<i32> -> tile<i1>
    assert %ok, "n is positive" : tile<i1>
    return
  }
}
"""


def _bytecode() -> bytes:
    return tilewright.write(tilewright.parse(TEXT))


SOURCES: dict[str, Callable[[], bytes]] = {"bytecode": _bytecode, "text": TEXT.encode}


@pytest.fixture(params=SOURCES)
def path(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    # Code that another test has in memory would not be written to this cache.
    monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())
    found = tmp_path / "kernels"
    found.write_bytes(SOURCES[request.param]())
    return found


def _is_read(program: Any) -> bool:
    """Whether a program has looked at the operations of its module."""
    held: LaunchedModule = program._module
    return held.is_read


def _known(path: Path) -> Any:
    """A program that is known from the disk, with the code of its kernels."""
    before: Any = tilewright.load(path, "cpu")
    for name in ("scale", "factor", "tell"):
        before.prepare(name)
    program = tilewright.load(path, "cpu")
    assert not _is_read(program)
    return program


def _plain(path: Path) -> Any:
    """A program that was made from an operation."""
    return tilewright.load(ModuleSource.of(path).read(), "cpu")


_SCRIPT = """
import sys
import numpy as np
import tilewright
path, how = sys.argv[1:]
source = open(path, "rb").read() if how == "bytes" else path
x, out = np.full(1, 3, np.float32), np.zeros(1, np.float32)
program = tilewright.load(source, "cpu")
program.launch("scale", 1, (x, out, 2.0, 1))
program.launch("factor", 1, (x,))
print(program.launch("tell", 1, (7,)).text)
print(float(out[0]), float(x[0]), "xdsl" in sys.modules)
"""


@pytest.mark.parametrize("how", ["bytes", "path"])
def test_the_second_process_does_without_xdsl(path: Path, own_cache: Path, how: str) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(path), how]
    seen = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [each.stdout.split() for each in seen] == [
        ["7;", "6.0", "1.0", "True"],
        ["7;", "6.0", "1.0", "False"],
    ]


@pytest.mark.rotates(2)
def test_processes_that_come_together(path: Path, own_cache: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT, str(path), "path"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for each in running:
        assert (each.communicate()[0] or "").split()[:3] == ["7;", "6.0", "1.0"]


def test_usual_launches_need_no_operations(path: Path) -> None:
    program, x, out = _known(path), np.full(4, 3, np.float32), np.zeros(4, np.float32)
    for _ in range(3):  # the third is a warm one
        program.launch("scale", (2, 1, 1), [x, out, 0.5, 1])
        assert out[0] == 1.5
    program.launch("scale", 1, (x, out, 1, 1), LaunchOptions(threads=1))
    program.launch("scale", 1, (x, out, np.float32(4), np.int64(1)))
    assert out[0] == 12
    program.global_array("factors")[0] = 8
    program.launch("factor", 1, (out,))
    assert out[0] == 8
    with pytest.raises(KeyError):
        program.global_array("scale")
    assert program.launch("tell", 1, (5,)).text == "5;"
    # Arrays of other libraries are seen as NumPy's.
    program.launch("scale", 1, (memoryview_of(x), out, 2.0, 1))
    assert out[0] == 6
    assert not _is_read(program)


class memoryview_of:
    """An array of a library that we do not know."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def _described(array: np.ndarray[Any, Any], *, is_writable: bool = True, offset: int = 0) -> Any:
    layout = Layout((0, 0), (), (), 0, array.nbytes, array.dtype, (), ())
    return ArrayValue("a", array.ctypes.data + offset, layout, is_writable, array)


def test_described_launches_need_no_operations(path: Path) -> None:
    program, x, out = _known(path), np.full(1, 3, np.float32), np.zeros(1, np.float32)
    numbers = np.array(2, np.float32), np.array(1, np.int32)
    values = _described(x, is_writable=False), _described(out), *numbers
    program.launch_described("scale", (1, 1, 1), values)
    assert out[0] == 6
    assert not _is_read(program)


_F32 = np.ones(4, np.float32)
_LOCKED = np.ones(4, np.float32)
_LOCKED.flags.writeable = False
#: Launches that end in an error: entry, grid, arguments, options.
WRONG: dict[str, tuple[Any, ...]] = {
    "no such kernel": ("other", 1, ()),
    "which kernel": (None, 1, ()),
    "too few": ("scale", 1, (_F32,)),
    "another dtype": ("scale", 1, (_F32, np.ones(4, np.float64), 1.0, 1)),
    "read-only": ("scale", 1, (_F32, _LOCKED, 1.0, 1)),
    "overlapping": ("scale", 1, (_F32, _F32[1:], 1.0, 1)),
    "too large": ("scale", 1, (_F32, _F32.copy(), 1.0, 2**40)),
    "no number": ("scale", 1, (_F32, _F32.copy(), "one", None)),
    "grid": ("scale", (0, 1), (_F32, _F32.copy(), 1.0, 1)),
    "grid and more": ("scale", (1, 1, 1, 1), (_F32,)),
    "assertion": ("tell", 1, (-1,)),
    "option": ("scale", 1, (_F32, _F32.copy(), 1.0, 1), LaunchOptions(sanitize=True)),
    "outside": ("row", 1, (np.ones(64, np.float32), _F32), LaunchOptions(checked=True)),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_a_module_that_was_read(path: Path, name: str) -> None:
    entry, grid, args, *options = WRONG[name]
    found: list[Any] = []
    for program in (_plain(path), _known(path), _known(path)):
        with pytest.raises(TileIRError) as error:
            program.launch(entry, grid, args, *options)
        found.append((type(error.value), render(error.value.diagnostics)))
    assert found[0] == found[1] == found[2]
    assert str(path) in found[0][1] or name in ("option", "grid")


@pytest.mark.parametrize("how", [{"is_writable": False}, {"offset": 2}])
def test_errors_of_described_launches_are_the_same(path: Path, how: Any) -> None:
    array, found = np.ones(4, np.float32), []
    numbers = np.array(2, np.float32), np.array(1, np.int32)
    for program in (_plain(path), _known(path)):
        with pytest.raises(TileIRError) as error:
            values = _described(_F32), _described(array, **how), *numbers
            program.launch_described("scale", (1, 1, 1), values)
        found.append(render(error.value.diagnostics))
    assert found[0] == found[1] and str(path) in found[0]


def test_unusual_arguments_give_the_same(path: Path) -> None:
    out = np.zeros(1, np.float32)
    program = _known(path)
    program.launch("scale", np.int64(1), (np.ones(8, np.float32)[::2], out, np.float32(3), 1))
    assert out[0] == 3
    assert program.module.entry("scale").symbol == "scale"


def test_what_was_changed_is_not_what_was_known(path: Path) -> None:
    program = _known(path)
    held: LaunchedModule = program._module
    before = held.digest
    assert before is not None and not held.is_read
    program.module.entry("tell").detach()
    assert held.digest not in (before, None)


def test_options_of_a_known_module_are_checked(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(TileIRError) as error:
            machine_named("cpu").load_source(ModuleSource.of(path), LaunchOptions(sanitize=True))
        assert error.value.diagnostics[0].code == "unsupported-option"
        tilewright.load(path, "cpu")


@pytest.mark.parametrize(
    "data", [b"\x7fTileIR\x00", _bytecode()[:-9], b"entry @k(", b"entry @k() {}\n\0", b"\xff"]
)
def test_what_cannot_be_read_is_an_error_each_time(own_cache: Path, data: bytes) -> None:
    for _ in range(2):
        with pytest.raises(TileIRError) as error:
            tilewright.load(data, "cpu")
        assert error.value.diagnostics[0].is_error
    assert not list(own_cache.glob("??/*.bin"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tilewright.load(tmp_path / "none.tileirbc", "cpu")
    with pytest.raises(IsADirectoryError):
        tilewright.run(str(tmp_path), machine="cpu")


def test_what_does_not_verify_is_an_error_each_time(own_cache: Path) -> None:
    data = b"entry @k(%x: tile<i32>) { %y = addi %x, %z : tile<i32> return }"
    for _ in range(2):
        with pytest.raises(TileIRError):
            tilewright.load(data, "cpu")


def test_modules_of_the_lower_level_are_read_each_time(own_cache: Path) -> None:
    data = b"nv_tileaa.func @k(%n: i32) attributes {kernel} { nv_tileaa.return }"
    for _ in range(2):
        program: Any = tilewright.load(data, "cpu")
        assert _is_read(program)
        program.launch("k", 1, (1,))


def test_a_module_in_a_builtin_one_is_known_if_it_is_alone(own_cache: Path) -> None:
    inner = "cuda_tile.module @m { entry @k(%n: tile<i32>) { return } }"
    alone, beside = f"module {{ {inner} }}", f"module {{ {inner} builtin.module {{}} }}"
    for text, is_read in ((alone, [True, False]), (beside, [True, True])):
        programs: list[Any] = [tilewright.load(text.encode(), "cpu") for _ in range(2)]
        assert [_is_read(each) for each in programs] == is_read
        programs[-1].launch("k", 1, (1,))


def test_large_globals_are_not_recorded(own_cache: Path) -> None:
    text = "cuda_tile.module @m { global @g <f64: 1.0> : tile<262144xf64> entry @k() { return } }"
    for count, is_read in ((262144, True), (131072, False)):
        data = text.replace("262144", str(count)).encode()
        tilewright.load(data, "cpu")
        program: Any = tilewright.load(data, "cpu")
        assert _is_read(program) == is_read
        assert program.global_array("g")[-1] == 1.0


@pytest.mark.parametrize("machine", ["reference", "sim:sm_90a"])
def test_every_machine_takes_bytes_and_paths(path: Path, machine: str) -> None:
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        out = np.zeros(1, np.float32)
        tilewright.run(source, "scale", 1, (np.ones(1, np.float32), out, 2.0, 1), machine)
        assert out[0] == 2


def test_without_a_cache_modules_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    for _ in range(2):
        program: Any = tilewright.load(path, "cpu")
        assert _is_read(program)


def test_code_that_is_gone_is_made_from_the_bytes(
    path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = np.zeros(1, np.float32)
    tilewright.run(path, "factor", 1, (out,), "cpu")
    for file in own_cache.glob("??/*.bin"):
        if not any(mark in file.read_bytes() for mark in (b'"digest"', b'"object"')):
            file.unlink()
    monkeypatch.setattr(kernels, "_libraries", kernels.OrderedDict())
    program: Any = tilewright.load(path, "cpu")
    assert not _is_read(program)
    out = np.zeros(1, np.float32)
    program.launch("factor", 1, (out,))
    assert out[0] == 1 and _is_read(program)


def _kernel(facts: Any, **fields: Any) -> Any:
    """The record with the parts of its first kernel changed."""
    symbol, parameters, written = facts["kernels"][0]
    changed = {"symbol": symbol, "parameters": parameters, "written": written} | fields
    return facts | {"kernels": [list(changed.values()), *facts["kernels"][1:]]}


DAMAGES: dict[str, Callable[[Any], Any]] = {
    "empty": lambda facts: {},
    "a list": lambda facts: [],
    "no digest": lambda facts: {k: v for k, v in facts.items() if k != "digest"},
    "digest": lambda facts: facts | {"digest": 5},
    "kernels": lambda facts: facts | {"kernels": {"scale": 1}},
    "a kernel": lambda facts: facts | {"kernels": [["scale", []]]},
    "globals": lambda facts: facts | {"globals": [["factors", "AAAA"]]},
    "contents": lambda facts: facts | {"globals": [["f", "?", "f32", 1, False, False]]},
    "flags": lambda facts: facts | {"globals": [["f", "AAAA", "f32", 1, 0, False]]},
    "symbol": lambda facts: _kernel(facts, symbol=None),
    "no parameters": lambda facts: _kernel(facts, parameters=7),
    "parameter": lambda facts: _kernel(facts, parameters=[["x", "f32"]]),
    "element": lambda facts: _kernel(facts, parameters=[["x", "f31", [], ""]]),
    "pointee": lambda facts: _kernel(facts, parameters=[["x", "ptr", [], "f31"]]),
    "extents": lambda facts: _kernel(facts, parameters=[["x", "f32", ["4"], ""]]),
    "written": lambda facts: _kernel(facts, written=["0"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_record_of_another_layout_is_none(own_cache: Path, name: str) -> None:
    data, cache = TEXT.encode(), DiskCache(own_cache)
    tilewright.load(data, "cpu")
    key = module_key(data)
    written = cache.get(key)
    assert written is not None and find_module(cache, data) is not None
    cache.put(key, json.dumps(DAMAGES[name](json.loads(written))).encode())
    assert find_module(cache, data) is None
    program: Any = tilewright.load(data, "cpu")
    assert _is_read(program)
    assert cache.get(key) == written


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_record_that_is_no_json_is_none(own_cache: Path, content: bytes) -> None:
    cache = DiskCache(own_cache)
    cache.put(module_key(b"data"), content)
    assert find_module(cache, b"data") is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner or mode here")
def test_a_record_that_others_may_write_is_none(path: Path, own_cache: Path) -> None:
    tilewright.load(path, "cpu")
    for file in own_cache.glob("??/*.bin"):
        file.chmod(0o666)
    program: Any = tilewright.load(path, "cpu")
    assert _is_read(program)
