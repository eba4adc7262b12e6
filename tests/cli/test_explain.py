"""``tilewright explain``."""

from __future__ import annotations

import json
import re
from importlib import import_module
from textwrap import dedent

import pytest
from tests.sampling import is_long
from tests.verifier.programs import Program

from tilewright.cli.exits import Exit
from tilewright.cli.explain import load_all_codes
from tilewright.cli.explain_text import facts_text
from tilewright.cli.op_facts import op_facts
from tilewright.diagnostics import all_codes
from tilewright.dialects import cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.numerics import FORMATS

from .conftest import Command

cuda_tile.load()


def explain(command: Command, name: str) -> dict[str, object]:
    ran = command("explain", "--format", "json", name)
    assert (ran.status, ran.err) == (Exit.OK, "")
    (facts,) = json.loads(ran.out)
    return facts


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation(command: Command, name: str) -> None:
    op = OPERATIONS[name]
    facts = explain(command, name)
    assert facts["kind"] == "operation"
    assert facts["opcode"] == op.OPCODE
    assert facts["summary"]
    definition = op.get_irdl_definition()
    for key, fields in (("operands", definition.operands), ("results", definition.results)):
        shown = facts[key]
        assert isinstance(shown, list)
        assert [field["name"] for field in shown] == [field for field, _ in fields]
        assert all(field["constraint"] for field in shown)
    text = command("explain", name).text
    assert text.startswith(f"cuda_tile.{name}: ")
    assert len(text.splitlines()) >= 5


def test_operation_in_full(command: Command) -> None:
    facts = explain(command, "divi")
    assert facts["since"] == "13.1"
    assert facts["traits"] == ["NoMemoryEffect"]
    assert facts["relations"] == ["lhs, rhs, result have the same type"]
    assert "a zero in rhs" in str(facts["undefined"])
    assert facts["codes"] == ["rounding-not-supported", "type-relation"]
    attributes = {entry["name"]: entry for entry in facts["attributes"]}  # type: ignore[attr-defined]
    assert attributes["rounding"]["default"] == "zero"
    assert attributes["rounding"]["value_since"] == {"nearest_away": "13.4"}
    text = command("explain", "divi").text
    for part in (
        "Since 13.1, opcode 0x15",
        "Syntax\n  divi %lhs `,` %rhs",
        "Operands\n  lhs: tile of i1 or",
        "rounding (optional)",
        "(nearest_away since 13.4)",
        "Rules\n",
        "Undefined behaviour\n",
        "Effects and traits\n  NoMemoryEffect",
        "Diagnostics\n  rounding-not-supported, type-relation",
        "Example\n",
    ):
        assert part in text, part


@pytest.mark.parametrize("dialect", ["nv_tileaa", "nv_tileas", "arith", "nvgpu"])
def test_operations_of_other_dialects(dialect: str) -> None:
    import_module(f"tilewright.dialects.{dialect}").load()
    declared = import_module(f"tilewright.dialects.{dialect}.base").OPERATIONS
    for op in declared.values():
        facts = op_facts(op)
        assert (facts["name"], facts["opcode"], facts["since"]) == (op.name, None, None)
        assert facts["summary"]
        text = facts_text(facts)
        assert text.startswith(f"{op.name}: ")
        assert f"\nSyntax\n  {op.name}" in text
        assert not re.search(r"since|opcode", text.partition("Syntax")[2].partition("Example")[0])
        assert f"\n\nGroup {op.GROUP}.\n" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("llvm.intr.masked.gather", "Loads the element that each pointer points at"),
        ("gpu.barrier", "Waits"),
        ("memref.atomic_rmw", "Combines"),
        ("arith.truncf", "The number of a narrower type"),
        ("arith.trunci", "Flags promise what the dropped bits are"),
    ],
)
def test_operations_around_nvgpu(command: Command, name: str, says: str) -> None:
    """Of a name that tiles have too, the operation of tiles is told."""
    ran = command("explain", name)
    assert ran.status == Exit.OK and ran.text.startswith(f"{name}: ") and says in ran.text


def test_full_names(command: Command) -> None:
    text = command("explain", "arith.addi").text
    assert text.startswith("arith.addi: lhs + rhs modulo 2**width.")
    assert "``x + 0``" in text
    assert "Group integer." in text
    assert command("explain", "nv_tileaa.tiled_load").text.startswith("nv_tileaa.tiled_load: ")
    # A name without its dialect is one of cuda_tile, or nearly one of another.
    assert command("explain", "addi").text.startswith("cuda_tile.addi: ")
    assert "did you mean `nv_tileaa.tiled_load`" in command("explain", "tiled_load").err


def test_rewrites(command: Command) -> None:
    rewrites = explain(command, "select")["rewrites"]
    assert isinstance(rewrites, list)
    assert "``select(c, a, a) = a``" in rewrites
    assert (
        "Rewritten by canonicalize\n  ``select(c, a, a) = a``\n"
        in command("explain", "select").text
    )
    assert explain(command, "addi")["rewrites"] == []


def test_versions_of_types(command: Command) -> None:
    assert explain(command, "strided_view")["since"] == "13.3"
    assert "\nSince 13.1.\n" in command("explain", "tile").text


def test_versions_of_fields(command: Command) -> None:
    text = command("explain", "load_view_tko").text
    assert "inbounds (optional): an array of booleans; default [] (since 13.4)" in text


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("cuda_tile.addi", "addi"),
        ("experimental$func", "testing$func"),
        ("!cuda_tile.tile<4xf32>", "tile"),
        ("error[type-relation]", "type-relation"),
        ("warning[type-relation]", "type-relation"),
    ],
)
def test_other_spellings(command: Command, spelling: str, name: str) -> None:
    assert explain(command, spelling)["name"] == name


@pytest.mark.parametrize("name", FORMATS)
def test_element_types(command: Command, name: str) -> None:
    facts = explain(command, name)
    assert (facts["kind"], facts["bits"]) == ("element type", FORMATS[name].bits)
    assert f"{FORMATS[name].storage_bits}\n" in command("explain", name).text


def test_largest_floats(command: Command) -> None:
    assert explain(command, "f8E4M3FN")["largest"] == 448.0
    assert explain(command, "f16")["largest"] == 65504.0
    assert explain(command, "f16")["smallest_normal"] == 2.0**-14


@pytest.mark.parametrize("cls", [*cuda_tile.load().attributes], ids=lambda cls: cls.name)
def test_types(command: Command, cls: type) -> None:
    name = cls.name.removeprefix("cuda_tile.")  # type: ignore[attr-defined]
    if not cls.__name__.endswith("Type") or name in FORMATS:
        return
    facts = explain(command, name)
    assert str(facts["example"]).startswith(name)


def test_every_code(command: Command) -> None:
    load_all_codes()
    codes = all_codes()
    assert len(codes) > 100
    for code in codes if is_long() else codes[::3]:
        ran = command("explain", code.name)
        assert ran.status == Exit.OK
        assert code.name in ran.text


def test_programs_of_codes(command: Command) -> None:
    """``wrong`` has one error, of its code; ``right`` has none. Both are shown."""
    load_all_codes()
    found: dict[str, object] = {}
    for code in (code for code in all_codes() if code.wrong or code.right):
        wrong, right = (wrap(dedent(text).strip()) for text in (code.wrong, code.right))
        reported = Program(code.name, "wrong", wrong, False, "error").diagnostics()
        if [each.code for each in reported] != [code.name]:
            found[f"{code.name}, wrong"] = reported
        if reported := Program(code.name, "right", right, True, "error").diagnostics():
            found[f"{code.name}, right"] = reported
        lines = (*code.wrong.splitlines(), *code.right.splitlines())
        text = command("explain", code.name).text
        assert [line for line in lines if line.strip() not in text] == []
    assert found == {}


def test_code_found_without_loading_the_rest(command: Command) -> None:
    facts = explain(command, "needs-version")
    assert facts["kind"] == "diagnostic"
    assert "bytecode version" in str(facts["summary"])


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("undetermined-value", "uninitialized-value"),
        ("overflow-promise", "integer-overflow"),
        ("alias-promise", "noalias-violation"),
    ],
)
@pytest.mark.filterwarnings("ignore:the diagnostic code:DeprecationWarning")
def test_former_names_of_codes(command: Command, former: str, name: str) -> None:
    assert name in command("explain", former).text


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("adi", "`addi`"), ("ADDI", "`addi`"), ("partition_vew", "`partition_view`")],
)
def test_unknown_name(command: Command, name: str, suggestion: str) -> None:
    ran = command("explain", name)
    assert ran.status == Exit.USAGE
    assert "error[unknown-name]" in ran.err
    assert "did you mean" in ran.err
    assert suggestion in ran.err


def test_nothing_like_it(command: Command) -> None:
    ran = command("explain", "qqqqqqqqqqqqqqqq")
    assert ran.status == Exit.USAGE
    assert "--list" in ran.err


def test_list(command: Command) -> None:
    ran = command("explain", "--list")
    assert ran.status == Exit.OK
    listed = json.loads(command("explain", "--list", "--format", "json").out)
    names = {entry["name"] for entry in listed}
    assert {*OPERATIONS, *FORMATS, "tile", "syntax"} <= names
    for entry in listed:
        assert f"\n  {entry['name']}" in ran.text
        assert f"{entry['section']}\n" in ran.text


@pytest.mark.parametrize("arguments", [[], ["--list", "addi"]])
def test_name_or_list(command: Command, arguments: list[str]) -> None:
    ran = command("explain", *arguments)
    assert ran.status == Exit.USAGE
    assert "bad-usage" in ran.err
