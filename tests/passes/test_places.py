"""What a pass makes stands where the code stood that it replaces."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Operation

from tilewright.diagnostics import Span
from tilewright.dialects.cuda_tile.debug_info import (
    CallSiteAttr,
    DILocAttr,
    DISubprogramAttr,
    debug_location,
    source_position,
    subprogram_of,
)
from tilewright.dialects.cuda_tile.ops.control_flow import ReturnOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, ModuleOp
from tilewright.dialects.declare import ensure_terminator
from tilewright.dialects.source_map import location_of, source_of
from tilewright.passes import run_pipeline
from tilewright.passes.base import functions
from tilewright.text import parse


def rewritten(text: str, pipeline: str) -> ModuleOp:
    module = parse(text, "k.tileir")
    assert isinstance(module, ModuleOp)
    run_pipeline(module, pipeline, verify_each=True)
    return module


def named(module: Operation, mnemonic: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == f"cuda_tile.{mnemonic}"]


def line_of(op: Operation) -> int:
    assert source_of(op) is not None, f"{op.name} has no source"
    location = location_of(op)
    assert isinstance(location, Span)
    return location.line


SELECT = """entry @k(%c: tile<i1>) {
  %x = constant <i32: 0> : tile<i32>
  %y = constant <i32: 1> : tile<i32>
  %s = select %c, %x, %y : tile<i1>, tile<i32> loc("k.py":7:3)
  %t = print_tko "%d", %s : tile<i32> -> token
  return
}
"""


def test_replacements_inherit_source_and_location() -> None:
    module = rewritten(SELECT, "canonicalize")
    for mnemonic in ("exti", "xori", "constant"):
        (op,) = named(module, mnemonic)
        assert line_of(op) == 4
        assert isinstance(op.location, FileLineColLoc)
        assert op.location.line.data == 7


def test_the_first_of_equal_operations_stays() -> None:
    text = """entry @k(%x: tile<i32>) {
  %a = addi %x, %x : tile<i32>
  %b = addi %x, %x : tile<i32>
  %t = print_tko "%d %d", %a, %b : tile<i32>, tile<i32> -> token
  return
}
"""
    (op,) = named(rewritten(text, "cse"), "addi")
    assert line_of(op) == 2


def test_both_loops_stand_where_the_loop_stood() -> None:
    text = """entry @k(%n: tile<i32>, %k: tile<i32>) {
  for %i in (%n to %k, step %n) : tile<i32> {
    %c = cmpi less_than %i, %k, signed : tile<i32> -> tile<i1>
    if %c {
      %t = print_tko "x" -> token
    }
    %u = print_tko "y" -> token
  }
  return
}
"""
    module = rewritten(text, "loop-split")
    assert [line_of(op) for op in named(module, "for")] == [2, 2]
    assert [line_of(op) for op in named(module, "print_tko")] == [5, 7, 7]
    assert {line_of(op) for op in named(module, "mini") + named(module, "maxi")} == {2}


@pytest.mark.parametrize("pipeline", ["canonicalize", "fuse-fma,O3"])
def test_merged_ifs_have_a_source(pipeline: str) -> None:
    text = """entry @k(%c: tile<i1>, %x: tile<i32>) {
  %r = if %c -> (tile<i32>) {
    %t = print_tko "a" -> token
    yield %x : tile<i32>
  } else {
    %m = muli %x, %x : tile<i32>
    yield %m : tile<i32>
  }
  if %c {
    %t = print_tko "%d", %r : tile<i32> -> token
    return
  } else {
    %t = print_tko "%d", %x : tile<i32> -> token
    return
  }
  return
}
"""
    module = rewritten(text, pipeline)
    assert [line_of(op) for op in named(module, "if")] == [2]
    assert all(source_of(op) is not None for op in module.walk() if op.name != "cuda_tile.module")


TEXT_WITH_LOCATIONS = """cuda_tile.module @m {
  entry @a(%x: tile<i32>) {
    %y = addi %x, %x : tile<i32> loc("dir/a.py":12:5)
    %t = print_tko "%d", %y : tile<i32> -> token loc(callsite("b.py":3:4 at "dir/a.py":13:5))
    %u = print_tko "%d", %y : tile<i32> -> token loc("name"("dir/a.py":14:6))
    return
  } loc("dir/a.py":10:1)
  global @g <f32: 0.0> : tile<1xf32>
} loc("dir/a.py":1:1)
"""


def test_debug_scopes() -> None:
    module = rewritten(TEXT_WITH_LOCATIONS, "synthesize-debug-info-scopes")
    (entry,) = functions(module)
    location = entry.location
    assert isinstance(location, DILocAttr)
    assert str(location.scope) == (
        '#cuda_tile.di_subprogram<file = #cuda_tile.di_file<"a.py" in "dir">, line = 10, '
        'name = "a", linkageName = "a", compileUnit = #cuda_tile.di_compile_unit<file = '
        '#cuda_tile.di_file<"a.py" in "dir">>>'
    )
    (add,) = named(module, "addi")
    assert isinstance(add.location, DILocAttr)
    assert add.location.scope == location.scope
    assert add.location.position == ("dir/a.py", 12, 5)
    call, name = (op.location for op in named(module, "print_tko"))
    assert call.callee.position == ("b.py", 3, 4)  # pyright: ignore
    assert call.caller.position == ("dir/a.py", 13, 5)  # pyright: ignore
    assert name.position == ("dir/a.py", 14, 6)  # pyright: ignore
    (held,) = named(module, "global")
    assert not isinstance(held.location, DILocAttr)


def test_debug_scopes_from_the_text_itself() -> None:
    module = rewritten(SELECT.replace(' loc("k.py":7:3)', ""), "synthesize-debug-info-scopes")
    (entry,) = functions(module)
    assert isinstance(entry.location, DILocAttr)
    assert entry.location.position == ("k.tileir", 1, 1)
    (select,) = named(module, "select")
    assert isinstance(select.location, DILocAttr)
    assert select.location.position == ("k.tileir", 4, 8)


def test_debug_scopes_of_made_operations() -> None:
    module = ModuleOp.make()
    (made,) = functions(parse("entry @k() {\n  return\n}\n"))
    module.block.add_op(made.clone())
    run_pipeline(module, "synthesize-debug-info-scopes", verify_each=True)
    (entry,) = functions(module)
    assert isinstance(entry.location, DILocAttr)
    assert entry.location.position == ("<unknown>", 1, 0)
    (end,) = named(module, "return")
    assert isinstance(end.location, DILocAttr)
    assert end.location.position == ("<unknown>", 0, 0)


def test_functions_with_a_scope_are_left_alone() -> None:
    module = rewritten(TEXT_WITH_LOCATIONS, "synthesize-debug-info-scopes")
    before = [op.location for op in module.walk()]
    run_pipeline(module, "synthesize-debug-info-scopes")
    assert [op.location for op in module.walk()] == before


def scope_of(op: Operation) -> DISubprogramAttr:
    location = debug_location(op.location)
    assert location is not None
    subprogram = subprogram_of(location.scope)
    assert subprogram is not None
    return subprogram


class TestScopes:
    """``synthesize-debug-info-scopes``: whose file is whose."""

    def test_a_function_lies_in_the_file_of_its_own_location(self) -> None:
        text = """cuda_tile.module @m {
  entry @a() { return } loc("src/a.py":3:1)
  entry @b() { return loc("lib/c.py":7:1) } loc("n"(fused[unknown, "/abs/b.py":5:2]))
  entry @c() { return } loc("y.py":2:1)
} loc("pkg/main.py":1:1)
"""
        module = rewritten(text, "synthesize-debug-info-scopes")
        scopes = {f.symbol: scope_of(f) for f in functions(module)}
        files = {k: (s.file.directory.data, s.file.file_name.data) for k, s in scopes.items()}
        assert files == {"a": ("src", "a.py"), "b": ("/abs", "b.py"), "c": ("", "y.py")}
        assert {k: s.line.data for k, s in scopes.items()} == {"a": 3, "b": 5, "c": 2}
        units = {s.compile_unit.file.file_name.data for s in scopes.values()}
        assert units == {"main.py"}
        *_, last = functions(module)[1].walk()
        assert source_position(last.location) == ("lib/c.py", 7, 1)

    def test_a_function_without_location_lies_in_the_file_of_the_unit(self) -> None:
        module = ModuleOp.make("m")
        module.location = FileLineColLoc(StringAttr("dir/m.py"), IntAttr(1), IntAttr(1))
        module.block.add_op(EntryOp.make("k", []))
        ensure_terminator(module.entry().regions[0], ReturnOp)
        run_pipeline(module, "synthesize-debug-info-scopes")
        scope = scope_of(module.entry())
        assert (scope.file.directory.data, scope.file.file_name.data) == ("dir", "m.py")
        assert scope.file == scope.compile_unit.file and scope.line.data == 1

    def test_nothing_known_at_all(self) -> None:
        module = ModuleOp.make("m")
        module.block.add_op(EntryOp.make("k", []))
        ensure_terminator(module.entry().regions[0], ReturnOp)
        run_pipeline(module, "synthesize-debug-info-scopes")
        assert scope_of(module.entry()).file.file_name.data == "<unknown>"

    def test_call_sites_and_names_keep_their_positions(self) -> None:
        text = """entry @k() {
  %a = iota : tile<8xi32> loc("n"("a.py":4:1))
  %b = iota : tile<8xi32> loc(callsite(fused[unknown, "b.py":5:1] at callsite("c.py":6:1 at unknown)))
  return
} loc("a.py":1:1)
"""
        module = rewritten(text, "synthesize-debug-info-scopes")
        first, second, _ = module.entry().block.ops
        assert source_position(first.location) == ("a.py", 4, 1)
        site = second.location
        assert isinstance(site, CallSiteAttr) and isinstance(site.caller, CallSiteAttr)
        assert source_position(site.callee) == ("b.py", 5, 1)
        assert source_position(site.caller.callee) == ("c.py", 6, 1)
