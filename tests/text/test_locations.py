"""Locations and debug info: reading, aliases, printing."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Attribute

import tilewright
from tilewright.bytecode import read, write
from tilewright.dialects.cuda_tile.debug_info import (
    CallSiteAttr,
    DILocAttr,
    DISubprogramAttr,
    debug_location,
    source_position,
)
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.passes import run_pipeline
from tilewright.text import parse, print_text, same_module
from tilewright.text.aliases import MAX_ALIAS_LEVELS

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


@pytest.mark.parametrize("end", ["to 3:4", "to :9"])
def test_of_a_range_the_start_is_kept(end: str) -> None:
    """Newer versions of MLIR write them; bytecode knows one line and one column."""
    assert location_of(f'"a b":1:2 {end}') == position("a b", 1, 2)
    assert location_of(f'callsite("f":3:4 {end} at unknown)') == location_of(
        'callsite("f":3:4 at unknown)'
    )
    with pytest.raises(tilewright.TileIRError, match="expected"):
        location_of('"a b":1:2 to 3')


def test_builtin_locations() -> None:
    assert location_of("unknown") == UnknownLoc()
    assert location_of('"a b":1:2') == position("a b", 1, 2)
    named = location_of('"name"("f":3:4)')
    assert named == NameLoc(StringAttr("name"), position("f", 3, 4))
    fused = location_of('fused<"m">["f":3:4, unknown]')
    assert fused == FusedLoc((position("f", 3, 4), UnknownLoc()), StringAttr("m"))
    assert isinstance(location_of("fused[unknown]"), FusedLoc)
    assert location_of("#pos") == position("k.py", 4, 2)


def test_a_file_without_a_name_is_a_dash() -> None:
    """As MLIR has it, and `tileirdisasm` prints it."""
    assert location_of('"":3:4') == position("-", 3, 4)
    text = """entry @k() { return loc(#cuda_tile.di_loc<loc("":3:4) in #s>) } loc(#cuda_tile.di_loc<loc("k.py":1:0) in #s>)
      #f = #cuda_tile.di_file<"" in "">
      #u = #cuda_tile.di_compile_unit<file = #f>
      #s = #cuda_tile.di_subprogram<file = #f, line = 1, name = "k", linkageName = "k", compileUnit = #u>
    """
    data = write(module_of(text))
    assert 'loc("-":3:4)' in print_text(read(data), locations=True)
    # The same where another tool has written no name.
    assert data.count(b"-") == 1


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


class TestNamedAndFused:
    """Named and fused locations hold debug locations as they hold any others."""

    @pytest.mark.parametrize(
        "text",
        [
            '"name"(#l2)',
            '"name"(callsite(#l2 at #l1))',
            '"outer"("inner"(#l2))',
            "fused[#l2]",
            'fused<"m">[#l2, "k.py":1:1]',
            "fused[unknown, fused[#l2, unknown]]",
            '"n"(fused["m"(#cuda_tile.di_loc<#pos in #sp>)])',
            'callsite("name"(#l2) at fused[#l1])',
        ],
    )
    def test_they_hold_debug_locations(self, text: str) -> None:
        module = module_of(f"entry @k() {{ return loc({text}) }} loc(#l1)\n{DEBUG}")
        tilewright.verify(module)
        last = module.entry().block.last_op
        assert last is not None and debug_location(last.location) is not None
        for generic in (False, True):
            printed = print_text(module, locations=True, generic=generic)
            again = parse(printed)
            assert same_module(module, again, locations=True) is None
            assert print_text(again, locations=True, generic=generic) == printed

    def test_scopes_inside_of_them_are_checked(self) -> None:
        """The scope of a function is looked for behind a name and in a fusion, too."""
        for location in ('"n"(#l2)', "fused[unknown, #l2]"):
            with pytest.raises(tilewright.TileIRError, match="debug-scope"):
                tilewright.verify(module_of(f"entry @k() {{ return loc({location}) }}\n{DEBUG}"))

    @pytest.mark.parametrize(
        ("text", "position"),
        [
            ('fused[unknown, "a":1:2]', ("a", 1, 2)),
            ('"n"(fused["a":1:2, "b":3:4])', ("a", 1, 2)),
            ('callsite("a":1:2 at "b":3:4)', ("b", 3, 4)),
            ('fused["a":1:2, #l2]', ("k.py", 4, 2)),
            ("fused[unknown]", None),
            ('"n"', None),
        ],
    )
    def test_the_position_that_they_lead_to(self, text: str, position: object) -> None:
        location = location_of(text)
        assert isinstance(location, Attribute)
        assert source_position(location) == position


def chain(links: int, first: str, link: str) -> str:
    """A kernel whose last operation has a location of many aliases, each made of the one before."""
    lines = [f"#a0 = {first}"]
    lines += [f"#a{i + 1} = {link.format(f'#a{i}', i + 1)}" for i in range(links)]
    last = f"#a{links}"
    if first == "#sp":
        last = f'#cuda_tile.di_loc<loc("k.py":9:9) in {last}>'
    return f"entry @k() {{ return loc({last}) }} loc(#l1)\n{DEBUG}" + "\n".join(lines) + "\n"


CHAINS = {
    "blocks": ("#sp", "#cuda_tile.di_lexical_block<scope = {}, file = #file, line = {}>"),
    "callees": ("#l1", "loc(callsite({} at #l1))"),
    "callers": ("#l1", "loc(callsite(#l1 at {}))"),
    "names": ("#l1", 'loc("n"({}))'),
    "fusions": ("#l1", "loc(fused[{}, #l1])"),
}


class TestDepth:
    """Debug info of inlined code is deep; nothing that walks it may care."""

    @pytest.mark.parametrize("kind", CHAINS)
    def test_a_thousand_levels(self, kind: str) -> None:
        module = module_of(chain(1000, *CHAINS[kind]))
        tilewright.verify(module)
        printed = print_text(module, locations=True)
        again = parse(printed)
        assert same_module(module, again, locations=True) is None
        assert print_text(again, locations=True) == printed
        run_pipeline(module, "O3,synthesize-debug-info-scopes")

    @pytest.mark.parametrize("kind", CHAINS)
    def test_attributes_show_it_in_full(self, kind: str) -> None:
        """Outside of locations nothing has an alias, so what is printed may be long."""
        links = MAX_ALIAS_LEVELS - 10
        text = chain(links, *CHAINS[kind]).replace("return", f"return {{deep = #a{links}}}")
        text = "entry @k(%c: tile<i1>) {" + "if %c {" * 150 + text.removeprefix("entry @k() {")
        text = text.replace("} loc(#l1)", "}" * 151 + "loc(#l1)")
        printed = print_text(module_of(text))
        assert printed.count("#cuda_tile.di_lexical_block") == (links if kind == "blocks" else 0)

    def test_too_many_levels_are_refused(self) -> None:
        with pytest.raises(tilewright.TileIRError, match="aliases are nested more than"):
            parse(chain(MAX_ALIAS_LEVELS + 1, *CHAINS["callees"]))

    def test_a_circle_of_many_aliases(self) -> None:
        lines = [f"#a{i} = loc(fused[#a{(i + 1) % 1000}])" for i in range(1000)]
        with pytest.raises(tilewright.TileIRError, match="is defined by itself"):
            parse("entry @k() { return loc(#a0) }\n" + "\n".join(lines))

    def test_what_a_string_hides_is_no_part(self) -> None:
        text = '#b = loc("#c":1:2) // #c\n#c = loc(fused[#b, #b])'
        module = module_of(f"entry @k() {{ return loc(#b) }} loc(#c)\n{text}")
        assert source_position(module.entry().location) == ("#c", 1, 2)

    def test_equal_parts_that_are_not_the_same_objects(self) -> None:
        one, other = (location_of_chain("callers") for _ in range(2))
        assert one is not other and one == other and hash(one) == hash(other)
        assert one != location_of_chain("callees")

    def test_sharing_costs_nothing_twice(self) -> None:
        """A doubling chain stands for 2**200 parts; equality and hash see each once."""

        def doubled() -> Attribute:
            found: Attribute = UnknownLoc()
            for _ in range(200):
                found = CallSiteAttr(found, found)
            return found

        assert doubled() == doubled()
        assert source_position(doubled()) is None


def location_of_chain(kind: str) -> Attribute:
    last = module_of(chain(1000, *CHAINS[kind])).entry().block.last_op
    assert last is not None
    return last.location


ARGUMENTS = {
    "cuda_tile": """
        entry @k(%a: tile<i32> loc("a"), %b: tile<i32> {x.y = 1 : i32} loc(#l)) {
          return
        }
    """,
    "generic": """
        "cuda_tile.module"() <{sym_name = "m"}> ({
          "cuda_tile.entry"() <{function_type = (!cuda_tile.tile<i32>) -> (), sym_name = "k"}> ({
          ^bb0(%a: !cuda_tile.tile<i32> loc("a"("k.py":1:2))):
            "cuda_tile.return"() : () -> ()
          }) : () -> ()
        }) : () -> ()
    """,
    "nv_tileaa": """
        nv_tileaa.func @k(%a: tile<4xi32> loc("a"), %b: tile<4x!nv_tileaa.ptr<f32>> loc(#l)) {
          nv_tileaa.return
        }
    """,
    "nvgpu": """
        gpu.module @m {
          gpu.func @k(%a: memref<16xf32> loc("a"), %b: i32 {x.y = 1 : i32} loc(#l)) workgroup(%c: memref<4xf32, 3> loc("c")) kernel {
            gpu.return
          }
          func.func @f(%a: i32 {x.y = 1 : i32} loc("a")) {
            return
          }
        }
    """,
}


@pytest.mark.parametrize("text", ARGUMENTS.values(), ids=ARGUMENTS)
def test_locations_of_arguments_stay(text: str) -> None:
    """As MLIR writes them with ``-mlir-print-debuginfo``."""
    module = parse(text + '\n#l = loc("k.py":1:2)')
    found = [
        argument.location
        for op in module.walk()
        for region in op.regions
        for block in region.blocks
        for argument in block.args
    ]
    assert found and not any(isinstance(location, UnknownLoc) for location in found)
    shown = print_text(module, locations=True)
    again = parse(shown)
    assert same_module(module, again, locations=True) is None
    assert print_text(again, locations=True) == shown
