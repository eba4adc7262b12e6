"""Locations and debug info: reading, aliases, printing."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, NameLoc, StringAttr, UnknownLoc

from tilewright.dialects.cuda_tile.debug_info import CallSiteAttr, DILocAttr, DISubprogramAttr
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.text import parse, print_text, same_module

DEBUG = """
#file = #cuda_tile.di_file<"k.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#sp = #cuda_tile.di_subprogram<file = <"k.py" in "/src">, line = 3, name = "k",
  linkageName = "k", compileUnit = <file = #file>, scopeLine = 4>
#block = #cuda_tile.di_lexical_block<scope = #sp, file = #file, line = 6, column = 2>
#l1 = #cuda_tile.di_loc<loc("k.py":3:0) in #sp>
#l2 = #cuda_tile.di_loc<#pos in #block>
#pos = loc("k.py":4:2)
"""


def module_of(text: str) -> ModuleOp:
    module = parse(text)
    assert isinstance(module, ModuleOp)
    return module


def location_of(text: str) -> object:
    """The location of a return, as written behind it."""
    module = module_of(f"entry @k() {{ return loc({text}) }}\n{DEBUG}")
    last = module.entry().block.last_op
    assert last is not None
    return last.location


def position(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def test_builtin_locations() -> None:
    assert location_of("unknown") == UnknownLoc()
    assert location_of('"a b":1:2') == position("a b", 1, 2)
    named = location_of('"name"("f":3:4)')
    assert named == NameLoc(StringAttr("name"), position("f", 3, 4))
    fused = location_of('fused<"m">["f":3:4, unknown]')
    assert fused == FusedLoc((position("f", 3, 4), UnknownLoc()), StringAttr("m"))
    assert isinstance(location_of("fused[unknown]"), FusedLoc)
    assert location_of("#pos") == position("k.py", 4, 2)


def test_debug_info_behind_its_uses() -> None:
    found = location_of("#l2")
    assert isinstance(found, DILocAttr)
    assert found.position == ("k.py", 4, 2)
    direct = location_of("#cuda_tile.di_loc<#pos in #sp>")
    assert isinstance(direct, DILocAttr) and isinstance(direct.scope, DISubprogramAttr)
    assert direct.scope.scope_line.data == 4


def test_call_sites() -> None:
    found = location_of("callsite(#l2 at callsite(#l1 at unknown))")
    assert isinstance(found, CallSiteAttr)
    assert isinstance(found.callee, DILocAttr)
    assert isinstance(found.caller, CallSiteAttr)


def test_where_locations_stand() -> None:
    module = module_of(
        "cuda_tile.module @m {\n"
        'entry @k(%c: tile<i1> loc("arg":1:1)) {\n'
        'if %c { yield loc("yield":1:1) } loc("if":1:1)\n'
        '"cuda_tile.return"() : () -> () loc("return":1:1)\n'
        '} loc("entry":1:1)\n} loc("module":1:1)'
    )
    entry = module.entry()
    conditional, last = entry.block.ops
    assert isinstance(conditional, IfOp)
    names = {
        "module": module.location,
        "entry": entry.location,
        "arg": entry.block.args[0].location,
        "if": conditional.location,
        "yield": conditional.then_region.blocks[0].ops.first.location,
        "return": last.location,
    }
    assert names == {name: position(name, 1, 1) for name in names}


PROGRAM = (
    """cuda_tile.module @m {
  global @g <i32: [1, 2]> : tile<2xi32> loc("g":1:1)
  entry @k(%c: tile<i1> loc("arg":1:2)) {
    %p = get_global @g : tile<ptr<i32>> loc(#l2)
    if %c {
      return loc(fused<"x">[#pos, "n"(unknown)])
    } loc(callsite(#l2 at #l1))
    if %c {
      yield loc(#l2)
    } loc(#l2)
    return
  } loc(#l1)
} loc("m":1:1)
"""
    + DEBUG
)


@pytest.mark.parametrize("generic", [False, True])
def test_printed_locations_read_back(generic: bool) -> None:
    module = module_of(PROGRAM)
    text = print_text(module, locations=True, generic=generic)
    again = parse(text)
    assert same_module(module, again, locations=True) is None
    assert print_text(again, locations=True, generic=generic) == text


def test_locations_are_left_out_unless_asked_for() -> None:
    assert "loc" not in print_text(module_of(PROGRAM))


def test_the_order_and_numbers_of_aliases() -> None:
    text = (
        """entry @k() {
      %a = iota : tile<8xi32> loc(#l2)
      %b = iota : tile<8xi32> loc(callsite(#l2 at #l1))
      return
    } loc(#l1)"""
        + DEBUG
    )
    printed = print_text(module_of(text), bare=True, locations=True)
    assert printed == (
        """entry @k() {
  %a = iota : tile<8xi32> loc(#loc4)
  %b = iota : tile<8xi32> loc(#loc5)
  return loc(#loc2)
} loc(#loc3)
#di_file = #cuda_tile.di_file<"k.py" in "/src">
#loc = loc("k.py":3:0)
#loc1 = loc("k.py":4:2)
#loc2 = loc(unknown)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 3, name = "k", """
        """linkageName = "k", compileUnit = #di_compile_unit, scopeLine = 4>
#di_lexical_block = #cuda_tile.di_lexical_block<scope = #di_subprogram, file = #di_file, """
        """line = 6, column = 2>
#loc3 = #cuda_tile.di_loc<#loc in #di_subprogram>
#loc4 = #cuda_tile.di_loc<#loc1 in #di_lexical_block>
#loc5 = loc(callsite(#loc4 at #loc3))
"""
    )


def test_hidden_terminators_give_no_alias_in_bare_text() -> None:
    text = 'entry @k(%c: tile<i1>) { if %c { yield loc("hidden":1:1) } return }'
    assert "hidden" not in print_text(module_of(text), bare=True, locations=True)
    assert "hidden" in print_text(module_of(text), locations=True)


def test_debug_info_in_attributes() -> None:
    text = f"entry @k() {{ return {{scope = #sp, where = #l2, at = loc(unknown)}} }}\n{DEBUG}"
    module = module_of(text)
    for locations in (False, True):
        again = parse(print_text(module, locations=locations))
        assert same_module(module, again) is None
