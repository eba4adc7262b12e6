"""The tables of all back ends: what each says about each operation of its level, and about mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.ir import Operation

from tilewright.cpu.codegen.emitter.table import LOWERINGS as CPU
from tilewright.cpu.codegen.kernel import FAMILIES as CPU_FAMILIES
from tilewright.dialects import arith, cuda_tile, nv_tileaa, nv_tileas
from tilewright.dialects.backends import Table
from tilewright.dialects.cuda_tile.base import OPERATIONS as CUDA_TILE
from tilewright.dialects.nv_tileaa.base import OPERATIONS as NV_TILEAA
from tilewright.dialects.nv_tileaa.ops.memory import LoadOp, StoreOp
from tilewright.dialects.nv_tileas.base import OPERATIONS as NV_TILEAS
from tilewright.gpu.codegen.function import HANDLERS as GPU
from tilewright.gpu.codegen.kernel import HANDLER_MODULES
from tilewright.lowering.nvgpu.driver import FAMILIES as THREAD_FAMILIES
from tilewright.lowering.nvgpu.table import RULES as THREADS
from tilewright.lowering.scheduled.driver import FAMILIES as SCHEDULED_FAMILIES
from tilewright.lowering.scheduled.table import RULES as SCHEDULED
from tilewright.lowering.tileaa.driver import FAMILIES as TILEAA_FAMILIES
from tilewright.lowering.tileaa.table import LOWERINGS as TILEAA
from tilewright.machine import Program as ReferenceProgram
from tilewright.machine.compile import IMPLEMENTATIONS as REFERENCE
from tilewright.machine.tileaa import refusals
from tilewright.simulator import Program as Simulator
from tilewright.simulator.compile import IMPLEMENTATIONS as SIMULATOR
from tilewright.simulator.compile import TERMINATORS

for dialect in (cuda_tile, arith, nv_tileaa, nv_tileas):
    dialect.load()
assert all((CPU_FAMILIES, HANDLER_MODULES, THREAD_FAMILIES, SCHEDULED_FAMILIES, TILEAA_FAMILIES))
assert ReferenceProgram and Simulator and refusals

TABLES: tuple[Table[Any], ...] = (TILEAA, REFERENCE, CPU, THREADS, SCHEDULED, SIMULATOR, GPU)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.backend)
def test_tables_have_rules_and_say_why_not(table: Table[Any]) -> None:
    assert table
    assert not [key for key in (*table, *table.refused) if table.is_silent(key)]
    assert not set(table) & (set(table.refused) | set(table.elsewhere))


def test_every_operation_of_the_reference_machine() -> None:
    every = (*CUDA_TILE.values(), *NV_TILEAA.values(), *arith.OPERATIONS.values())
    others = [cls.name for cls in REFERENCE if cls not in every]
    assert not REFERENCE.problems(every, others)


def test_every_scheduled_operation() -> None:
    """What has no rule of its own there is lowered as without a schedule, by the rules of threads."""
    levels = (*NV_TILEAA.values(), *arith.OPERATIONS.values())
    known = {cls.name for cls in levels} | set(THREADS)
    assert not [
        line
        for line in SCHEDULED.problems(NV_TILEAS.values(), known)
        if line.partition(": ")[2].partition(":")[0] not in _NOT_FOR_THREADS
    ]


#: Ends of regions and what the passes take away again, which the operation around lowers.
_NOT_FOR_THREADS: frozenset[str] = frozenset({"nv_tileas.async.pipeline.yield"})


def test_gpus_run_what_the_simulator_runs() -> None:
    assert not [name for name in SIMULATOR if name not in GPU]
    assert not [name for name in TERMINATORS if name in SIMULATOR]


# -- mistakes --------------------------------------------------------------------------------------


def _table() -> Table[str]:
    return Table("a test", dialect="nv_tileaa", refused={"store": "it is too heavy"})


def test_names_are_completed() -> None:
    table = _table()
    table.enter("rule", "load", "ext.fence", "scf.for")
    assert list(table) == ["nv_tileaa.load", "nv_tileaa.ext.fence", "scf.for"]
    assert table["load"] == table[LoadOp] == table["nv_tileaa.load"] == "rule"
    assert LoadOp in table and StoreOp not in table and 3 not in table


def test_an_operation_is_entered_once() -> None:
    table = _table()
    for again in (table.enter, table.refuse, table.leave):
        with pytest.raises(ValueError, match=r"a test has 'nv_tileaa\.store' already"):
            again("other", StoreOp)


def test_problems_name_the_operation() -> None:
    table = _table()
    assert table.problems([LoadOp, StoreOp]) == [
        "a test: nv_tileaa.load: no rule, and no reason why not"
    ]
    table.enter("rule", LoadOp, "nothing", "scf.for")
    assert table.problems([LoadOp, StoreOp], {"scf.for"}) == [
        "a test: nv_tileaa.nothing: no such operation"
    ]
    table.leave("", "func")
    assert "a test: nv_tileaa.func: refused without a reason" in table.problems([LoadOp, StoreOp])


def test_answers() -> None:
    table: Table[str] = Table("a test", by_class=True)
    table.enter("rule", LoadOp)
    table.refuse("why", StoreOp)
    table.leave("who", Operation)
    assert [table.answer(cls) for cls in (LoadOp, StoreOp, Operation)] == [
        "yes",
        "no: why",
        "yes: who",
    ]
    op = LoadOp.__new__(LoadOp)
    assert table.rule_of(op) == "rule" and table.reason(op, "none") == "none"
    assert table.reason(StoreOp.__new__(StoreOp), "none") == "why"
