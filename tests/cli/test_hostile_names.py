"""Names are any text: none breaks an output, and none gets out of its place in one."""

from __future__ import annotations

import json
import re
import unicodedata
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.cli.conftest import Command
from tests.machine.kernels import checked

from tilewright.cpu import Program
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.launching.object_names import object_name
from tilewright.launching.options import LaunchOptions
from tilewright.machine import Program as Reference
from tilewright.simulator.tiles import TileProgram

NAMES = {
    "space": "a b",
    "line break": 'k"\ndefine void @x() { ret void }\n; "',
    "nul": "a\0b",
    "quote": 'a"b\\c',
    "comment": "a*/b/*c",
    "right to left": "a\u202eb\u2066c",
    "long": "k" * 10_000,
    "control": "a\x01\x1b[31mb\x7f",
    "unicode": "k\u00e4se\u540d\u524d",
    "intrinsic": "llvm.memcpy",
    "library": "memcpy",
    "ours": "in_a_range",
    "encoded": "tw$6b",
    "percent": "a%d%s$b",
    "markup": "</script><script>alert(1)</script>",
    "digit": "1k",
    "at": "@k",
}
SOURCE = """cuda_tile.module @m {
  global @GLOBAL <i32: [1, 2, 3, 4]> : tile<4xi32>
  entry @KERNEL(%x: tile<ptr<i32>>) {
    %g = get_global @GLOBAL : tile<ptr<i32>>
    %v, %t = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
    %c = constant <i32: [5, 6, 7, 9]> : tile<4xi32>
    %i = iota : tile<4xi32>
    %x1 = reshape %x : tile<ptr<i32>> -> tile<1xptr<i32>>
    %xb = broadcast %x1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %xp = offset %xb, %i : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
    %v1 = reshape %v : tile<i32> -> tile<1xi32>
    %vb = broadcast %v1 : tile<1xi32> -> tile<4xi32>
    %s = addi %vb, %c : tile<4xi32>
    %u = store_ptr_tko weak %xp, %s : tile<4xptr<i32>>, tile<4xi32> -> token
    return
  }
}"""
_COMMANDING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _symbol(name: str) -> str:
    return '@"' + "".join(f"\\{byte:02X}" for byte in name.encode()) + '"'


def source(name: str) -> str:
    return SOURCE.replace("@GLOBAL", _symbol(f"{name}g")).replace("@KERNEL", _symbol(name))


def _commands(text: str) -> set[str]:
    """The characters of an output that command a terminal, hide, or reorder."""
    return {c for c in text if unicodedata.category(c) in _COMMANDING and c not in "\n\t"}


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_run_and_compile(name: str) -> None:
    module = checked(source(NAMES[name]))
    programs = [
        Reference(module),
        Program(module),
        Program(module, options=LaunchOptions(checked=True)),
        TileProgram(module, "sm_90a"),
    ]
    for program, called in product(programs, (None, NAMES[name])):
        x = np.zeros(4, np.int32)
        program.launch(called, (1, 1, 1), [x])
        assert x.tolist() == [6, 7, 8, 10]
    made = GpuProgram(module, "sm_90").compile()
    assert f".entry {made.name}(" in made.ptx
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", made.name) and len(made.name) < 300


def test_names_in_code_are_identifiers_and_differ() -> None:
    spelled = [object_name(name) for name in NAMES.values()]
    spelled += [
        object_name(name) for name in ("k", "k" * 10_001, "a  b", object_name("a b"), "k_1$")
    ]
    assert len(set(spelled)) == len(spelled)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) for name in spelled)
    assert object_name("vector_add") == "vector_add"


@pytest.mark.rotates(2, 1)
@pytest.mark.parametrize("name", NAMES)
def test_outputs_hold(command: Command, tmp_path: Path, name: str) -> None:
    path, page = tmp_path / "k.tileir", tmp_path / "page.html"
    path.write_text(source(NAMES[name]))
    x, level = ("--arg", "zeros:i32:4"), ("-p", "lower-cuda-tile-to-tileaa")
    for arguments in (
        ("check", path),
        ("opt", "-O2", path),
        ("opt", "--generic", path),
        ("opt", *level, "--print-analysis", "all", path),
        ("opt", *level, "--print-analysis", "tokens", "--analysis-format", "dot", path),
        ("run", path, *x, "--print", "x"),
        ("compile", path, "--emit", "llvm"),
        ("compile", path, "--emit", "asm"),
        ("compile", path, "--emit", "nvgpu", "--target", "sm_90a"),
    ):
        ran = command(*arguments)
        assert ran.status == 0, (arguments, ran.err)
        assert not _commands(ran.text) and not _commands(ran.err), arguments
    annotated = command("opt", *level, "--print-analysis", "all", path).text
    for line in annotated.splitlines():
        assert not line.startswith("define")
    for arguments in (
        ("check", "--format", "json", path),
        ("check", "--format", "sarif", path),
        ("sanitize", path, "--format", "json", *x),
        ("sanitize", path, "--format", "sarif", *x),
        ("run", path, "--json", *x),
    ):
        json.loads(command(*arguments).text)
    drawn = command("opt", *level, "--print-analysis", "tokens", "--analysis-format", "svg", path)
    ElementTree.fromstring(drawn.text)
    for arguments in (("explain", path, *x, "-o", page), ("sanitize", path, *x, "--html", page)):
        assert command(*arguments).status == 0
        text = page.read_text()
        assert "<script>alert" not in text and not _commands(text)


def test_a_kernel_that_is_not_there(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "k.tileir"
    path.write_text(source(NAMES["control"]))
    ran = command("run", path, "--entry", "nope\x1b[31m")
    assert ran.status == 2 and not _commands(ran.err)


def test_a_producer_of_several_lines_stays_in_one(command: Command, tmp_path: Path) -> None:
    from tilewright.bytecode import write
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    plain = checked("cuda_tile.module @m { entry @k() { return } }")
    module = ModuleOp.make("m", "one\nentry @evil() { return }")
    for op in list(plain.body.blocks[0].ops):
        op.detach()
        module.body.blocks[0].add_op(op)
    path = tmp_path / "k.tilebc"
    path.write_bytes(write(module))
    ran = command("dis", path)
    assert ran.status == 0 and "\nentry @evil" not in ran.text
