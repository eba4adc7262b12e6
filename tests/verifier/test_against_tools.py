"""The verifier accepts what NVIDIA's tools accept, and refuses what they refuse."""

from __future__ import annotations

import pytest
from tests.oracles import OracleRejected, disassemble, requires_tileirdisasm
from tests.verifier.programs import Program, programs
from tests.verifier.variants import variants
from xdsl.ir import Operation

from tilewright.analysis.verifier import find_problems
from tilewright.bytecode import write
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.text import parse

pytestmark = [pytest.mark.oracle, requires_tileirdisasm]

NOT_STORED = "bytecode does not store this, so the tools do not see it"
HINTS = "the tools take any hint; we report doubtful ones only on request"

#: Rejected programs that the tools accept, with the reason. A file name stands for all its rules.
ACCEPTED_BY_TOOLS: dict[str, str] = {
    "core.tileir: a constant has the type of its value": NOT_STORED,
    "core.tileir: a constant index that no run can use": "a warning of ours",
    "core.tileir: the first sub-tile has number 0": "a warning of ours",
    "debug_info.tileir: globals have no scope": NOT_STORED,
    "hints.tileir": HINTS,
    "structure.tileir: nothing branches": NOT_STORED,
}


def refusal(module: Operation) -> str | None:
    """What the disassembler says against a module; None where it takes it.

    Raises TileIRError where bytecode cannot hold the module.
    """
    try:
        disassemble(write(module))
    except OracleRejected as error:
        return error.message
    return None


@pytest.mark.parametrize(
    "program", [p for p in programs() if p.is_twin], ids=lambda program: program.name
)
def test_twins_are_accepted(program: Program) -> None:
    assert refusal(parse(program.text, program.file)) is None


@pytest.mark.parametrize("mnemonic", OPERATIONS)
def test_examples_are_accepted(mnemonic: str) -> None:
    for example in OPERATIONS[mnemonic].EXAMPLES:
        assert refusal(parse(wrap(example))) is None


def encodable() -> list[Program]:
    """The rejected programs that parse; the verifier or the writer has to stop the others."""
    found: list[Program] = []
    for program in programs():
        if program.is_twin:
            continue
        try:
            parse(program.text, program.file)
        except TileIRError:
            continue
        found.append(program)
    return found


@pytest.mark.parametrize("program", encodable(), ids=lambda program: program.name)
def test_rejected_programs_are_refused(program: Program) -> None:
    try:
        answer = refusal(parse(program.text, program.file))
    except TileIRError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
        assert codes <= {"bytecode-invalid-ir", "bytecode-not-storable"}
        return
    known = {program.name, program.file} & ACCEPTED_BY_TOOLS.keys()
    assert (answer is None) == bool(known), answer


#: Parts of the names of variants on which we deliberately judge differently, with the reason.
JUDGED_OTHERWISE: dict[str, str] = {
    "constant 0: result 0 is": NOT_STORED,
    "constant 0: i": NOT_STORED,
}


def _compare(stride: int) -> None:
    wrong: list[str] = []
    compared = 0
    for variant in variants(stride):
        ours = [d.message for d in find_problems(variant.module) if d.is_error]
        try:
            theirs = refusal(variant.module)
        except TileIRError:
            assert ours, f"{variant.name}: accepted, but bytecode cannot hold it"
            continue
        compared += 1
        known = any(part in variant.name for part in JUDGED_OTHERWISE)
        if bool(ours) != (theirs is not None) and not known:
            wrong.append(f"{variant.name}: we say {ours[:1]}, the tools say {theirs}")
    assert compared > 10_000 // stride
    assert not wrong, "\n".join(wrong)


def test_changed_examples_are_judged_alike() -> None:
    _compare(stride=47)


@pytest.mark.long
def test_all_changed_examples_are_judged_alike() -> None:
    _compare(stride=1)
