"""Paths of warps: loops run as often as the PTX that they come from says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from tests.model.support import kernel, kernels, requires_tools

from tilewright.diagnostics import TileIRError
from tilewright.model.sass import Control, Instruction, Kernel, split_operands
from tilewright.model.scalars import Environment, operation, results_of
from tilewright.model.walk import LaunchShape, Walker, parameter_words

pytestmark = [requires_tools, pytest.mark.oracle]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
#: Something that neither can be left out nor put under a guard, so that loops stay as they are.
_WORK = "bar.sync 0; st.volatile.global.u32 [%rd0], %r3; bar.sync 0;"


def _launch(
    found: Kernel,
    numbers: tuple[int, ...],
    threads: int = 32,
    grid: tuple[int, int, int] = (1, 1, 1),
) -> LaunchShape:
    values = [(8, 1 << 40), *((4, number & 0xFFFFFFFF) for number in numbers)]
    return LaunchShape(grid, (threads, 1, 1), parameter_words(found, values))


def _turns(found: Kernel, launch: LaunchShape, warp: int = 0, block: int = 0) -> int:
    """How often a warp waits for others, which each turn does twice."""
    path = Walker(found, launch).walk(warp, (block, 0, 0))
    waits = sum(
        found.instructions[at].base == "BAR"
        for number in path.blocks
        for at in range(found.blocks[number].first, found.blocks[number].last + 1)
    )
    return waits // 2


def _while(condition: str, change: str) -> str:
    return f'.pragma "nounroll"; L: {_WORK} {change} {condition} @%p0 bra L;'


#: A loop, and how often it runs for numbers a, b, c; each is tried with some.
LOOPS: dict[str, tuple[str, Callable[[int, int, int], int]]] = {
    "unsigned": (
        "mov.u32 %r3, %laneid;" + _while("setp.lt.u32 %p0, %r3, %r0;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, a),
    ),
    "steps": (
        "mov.u32 %r3, 0;" + _while("setp.lt.u32 %p0, %r3, %r0;", "add.u32 %r3, %r3, %r1;"),
        lambda a, b, c: max(1, -(-a // b)),
    ),
    "signed, downwards": (
        "mov.u32 %r3, %r0;" + _while("setp.gt.s32 %p0, %r3, -5;", "sub.s32 %r3, %r3, %r1;"),
        lambda a, b, c: max(1, -(-(a + 5) // b)),
    ),
    "64 bits": (
        "cvt.u64.u32 %rd1, %r0; mul.lo.u64 %rd1, %rd1, 8589934592; mov.u64 %rd2, 0; mov.u32 %r3, 7;"
        + _while("setp.lt.u64 %p0, %rd2, %rd1;", "add.u64 %rd2, %rd2, 8589934592;"),
        lambda a, b, c: max(1, a),
    ),
    "divided": (
        "div.u32 %r4, %r0, %r1; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, a // b),
    ),
    "signed remainder": (
        "neg.s32 %r5, %r0; rem.s32 %r4, %r5, %r1; neg.s32 %r4, %r4; mov.u32 %r3, 0;"
        + _while("setp.lt.s32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, a % b),
    ),
    "shifts and masks": (
        "shr.u32 %r4, %r0, 1; and.b32 %r5, %r1, 6; or.b32 %r4, %r4, %r5; xor.b32 %r4, %r4, 1;"
        "mov.u32 %r3, 0;" + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, ((a >> 1) | (b & 6)) ^ 1),
    ),
    "smallest and largest": (
        "min.s32 %r4, %r0, %r1; max.s32 %r4, %r4, %r2; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, min(a, b), c),
    ),
    "selected": (
        "setp.gt.u32 %p1, %r0, %r1; selp.u32 %r4, %r1, %r0, %p1; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, min(a, b)),
    ),
    "high words": (
        "mul.hi.u32 %r4, %r0, 1073741824; mad.lo.u32 %r4, %r4, %r1, %r2; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, (a >> 2) * b + c),
    ),
    "counted bits": (
        "popc.b32 %r4, %r0; clz.b32 %r5, %r1; add.u32 %r4, %r4, %r5; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, a.bit_count() + 32 - b.bit_length()),
    ),
    "bytes": (
        "prmt.b32 %r4, %r0, %r1, 0x7740; and.b32 %r4, %r4, 63; bfe.u32 %r5, %r1, 1, 3; add.u32 %r4, %r4, %r5;"
        "mov.u32 %r3, 0;" + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"),
        lambda a, b, c: max(1, (a & 63) + (b >> 1 & 7)),
    ),
}
_LEADS = "mov.u32 %r3, 0; setp.eq.u32 %p1, %r0, 0; {} {} M: {}"
_COUNTED = _while("setp.lt.u32 %p0, %r3, %r0;", "add.u32 %r3, %r3, 1;")
#: What else is walked through, on each architecture.
OTHERS = {
    "on data": f"L: ld.volatile.global.u32 %r3, [%rd0]; {_WORK} setp.ne.u32 %p0, %r3, 5; @%p0 bra L;",
    "always met": _LEADS.format("", _COUNTED, _WORK),
    "met under a guard": _LEADS.format("@%p1 bra M;", _COUNTED, _WORK),
    "left by ending": f'.pragma "nounroll"; L: ld.volatile.global.u32 %r3, [%rd0]; {_WORK} '
    "setp.eq.u32 %p0, %r3, 5; @%p0 exit; bra L;",
    "endless": f"mov.u32 %r3, 0; L: {_WORK} bra L;",
    "a poll": "P: ld.volatile.shared.u32 %r3, [sm]; setp.eq.u32 %p0, %r3, 0; @%p0 bra P; st.global.u32 [%rd0], %r3;",
    "a chase": "mov.u32 %r3, sm; P: ld.volatile.shared.u32 %r3, [%r3]; setp.ne.u32 %p0, %r3, 0; @%p0 bra P;",
}


@cache
def _kernels(arch: str = "sm_90") -> dict[str, Kernel]:
    """All that are written above, by their names there."""
    bodies = {name: body for name, (body, _) in LOOPS.items()} | OTHERS
    found = kernels({f"k{n}": body for n, body in enumerate(bodies.values())}, arch)
    return dict(zip(bodies, found.values(), strict=True))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_turns_of_loops(name: str, arch: str) -> None:
    _, expected = LOOPS[name]
    found = _kernels(arch)[name]
    for numbers in ((1, 1, 1), (9, 3, 2), (37, 5, 11), (64, 13, 3), (100, 99, 0)):
        assert _turns(found, _launch(found, numbers)) == expected(*numbers), numbers


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_warps_and_blocks_go_their_own_ways(arch: str) -> None:
    body = (
        "mov.u32 %r4, %tid.x; shr.u32 %r4, %r4, 5; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x;"
        "mad.lo.u32 %r4, %r5, %r6, %r4; mov.u32 %r7, %ntid.x; add.u32 %r4, %r4, %r7; mov.u32 %r3, 0;"
        + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;")
    )
    found = kernel(body, arch, threads=128)
    launch = _launch(found, (1, 1, 1), threads=128, grid=(10, 1, 1))
    for warp in range(4):
        for block in (0, 3):
            assert _turns(found, launch, warp, block) == block * 10 + warp + 128


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_loops_on_data_need_a_number(arch: str) -> None:
    found = _kernels(arch)["on data"]
    launch = _launch(found, (1, 1, 1))
    with pytest.raises(TileIRError, match=r"\[model-unknown-trips\]: how often loop L0") as caught:
        Walker(found, launch).walk(0, (0, 0, 0))
    assert "--trips L0=N" in caught.value.diagnostics[0].help
    path = Walker(found, launch, {"L0": 17}).walk(0, (0, 0, 0))
    assert path.counts()[found.loops[0].head] == 17


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", ["always met", "met under a guard"])
def test_warps_come_to_loops_whose_turns_are_given(arch: str, name: str) -> None:
    """Also where an argument that is not given decides whether they do."""
    found = _kernels(arch)[name]
    launch = LaunchShape((1, 1, 1), (32, 1, 1), {})
    path = Walker(found, launch, {"L0": 9}).walk(0, (0, 0, 0))
    assert path.counts()[found.loops[0].head] == 9


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_loops_that_warps_leave_by_ending_need_a_number(arch: str) -> None:
    found = _kernels(arch)["left by ending"]
    launch = _launch(found, (1, 1, 1))
    with pytest.raises(TileIRError, match="how often loop L0"):
        Walker(found, launch).walk(0, (0, 0, 0))
    head = found.loops[0].head
    few, many = (
        Walker(found, launch, {"L0": n}).walk(0, (0, 0, 0)).counts()[head] for n in (5, 17)
    )
    assert few in (5, 6) and many - few == 12


def test_arguments_that_are_not_given_are_not_known() -> None:
    found = _kernels()["unsigned"]
    launch = LaunchShape((1, 1, 1), (32, 1, 1), parameter_words(found, [(8, None)]))
    with pytest.raises(TileIRError, match="how often loop"):
        Walker(found, launch).walk(0, (0, 0, 0))


def test_endless_loops_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.model.walk._MOST_STEPS", 20_000)
    found = _kernels()["endless"]
    with pytest.raises(TileIRError, match="how often loop L0"):
        Walker(found, _launch(found, (1, 1, 1))).walk(0, (0, 0, 0))


def test_polls_of_one_word_are_waits() -> None:
    found = _kernels()["a poll"]
    assert [loop.waits for loop in found.loops] == [True]
    Walker(found, _launch(found, (1, 1, 1))).walk(0, (0, 0, 0))
    assert [loop.waits for loop in _kernels()["a chase"].loops] == [False]


def test_branches_on_data_are_counted() -> None:
    stores = " ".join(f"st.volatile.global.u32 [%rd0+{4 * n}], %r3; bar.sync 0;" for n in range(20))
    body = f"ld.volatile.global.u32 %r3, [%rd0]; setp.ne.u32 %p0, %r3, 5; @%p0 bra E; {stores} E:"
    found = kernel(body)
    path = Walker(found, _launch(found, (1, 1, 1))).walk(0, (0, 0, 0))
    assert sum(path.guesses.values()) == 1


def test_announced_bytes_of_bulk_copies() -> None:
    body = """mov.u32 %r9, sm; mov.u32 %r3, 0;
      L: mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 4096;
      add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, %r0; @%p0 bra L;"""
    found = kernel(body)
    path = Walker(found, _launch(found, (12, 1, 1))).walk(0, (0, 0, 0))
    assert path.loaded_bytes == 12 * 4096


def test_predicates_kept_in_the_bits_of_a_register() -> None:
    """What ptxas does where predicates do not suffice: bits are set under guards, and tested later."""
    tests = " ".join(f"setp.gt.u32 %p{n}, %r0, {n};" for n in range(8))
    uses = " ".join(
        f"selp.u32 %r{20 + n}, 1, 0, %p{n}; add.u32 %r4, %r4, %r{20 + n};" for n in range(8)
    )
    body = f"mov.u32 %r4, 0; {tests} {uses} mov.u32 %r3, 0;" + _while(
        "setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;"
    )
    found = kernel(body)
    assert _turns(found, _launch(found, (5, 1, 1))) == 5


def _ran(opcode: str, operands: str, registers: dict[str, int]) -> dict[str, int | None]:
    """What an instruction makes of registers."""
    control = Control.decode(0)
    instruction = Instruction(0, opcode, split_operands(operands), "", control, None)
    held: dict[str, int | None] = dict(registers)
    operation(instruction, Environment({}, {}))(held)
    return held


def test_words_of_floats() -> None:
    """As their sizes say; what is too large for f32 is infinite, and 2 bytes may be f16 or bf16."""
    found = kernel("st.global.u32 [%rd0], %r0;")
    at = [place.offset for place in found.file.parameters]
    words = parameter_words(found, [(8, 0.5), (4, 1e39), (4, -1.5), (2, 0.5)])
    assert words == {
        at[0]: 0,
        at[0] + 4: 0x3FE00000,
        at[1]: 0x7F800000,
        at[2]: 0xBFC00000,
    }


@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
def test_numbers_of_clusters_are_those_of_blocks_without_clusters(arch: str) -> None:
    """Code multiplies them with what the launch says is 1 / the extent of a cluster."""
    body = (
        "mov.u32 %r4, %clusterid.y; mov.u32 %r5, %clusterid.z; mad.lo.u32 %r4, %r5, 10, %r4;"
        "mov.u32 %r3, 0;" + _while("setp.lt.u32 %p0, %r3, %r4;", "add.u32 %r3, %r3, 1;")
    )
    found = kernel(body, arch)
    launch = _launch(found, (1, 1, 1), grid=(2, 7, 5))
    for place in ((1, 6, 0), (0, 3, 4)):
        blocks = Walker(found, launch).walk(0, place).counts()
        assert max(blocks.values()) == place[2] * 10 + place[1]


@pytest.mark.parametrize(("opcode", "register"), [("LDC.128", "R8"), ("LDCU.128", "UR8")])
def test_four_constants_at_once(opcode: str, register: str) -> None:
    words = {0x390 + 4 * n: 100 + n for n in range(8)}
    for source, first in (("c[0x0][0x390]", 100), ("c[0x0][R2+0x390]", 104)):
        instruction = Instruction(0, opcode, (register, source), "", Control.decode(0), None)
        held: dict[str, int | None] = {"R2": 0x10}
        operation(instruction, Environment(words, {}))(held)
        names = [register[:-1] + str(8 + n) for n in range(4)]
        assert [held[name] for name in names] == [first + n for n in range(4)]
        assert results_of(instruction) == names


@pytest.mark.parametrize("source", ["c[0x4][0x8]", "1.5", "-1.5", "+INF", "R5.H1_H1"])
def test_what_cannot_be_read_is_unknown(source: str) -> None:
    """Constants of other banks than 0, floats, halves of registers: none of them is assumed to be 0."""
    instruction = Instruction(0, "IADD3", ("R4", "R5", source, "RZ"), "", Control.decode(0), None)
    held: dict[str, int | None] = {"R5": 7}
    operation(instruction, Environment({}, {}))(held)
    assert held["R4"] is None


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (0x40800000, 0x3E800000),  # 4: 1/4
        (0x7E800000, 0x00800000),  # 2**126: the least normal number
        (0x00000001, None),  # its reciprocal is no f32
        (0x007FFFFF, None),  # subnormal
        (0x7F000000, None),  # 2**127: the reciprocal is subnormal
        (0x00000000, None),
        (0xFF800000, None),  # -infinity
        (0x7FC00000, None),  # NaN
    ],
)
def test_reciprocals_of_normal_numbers_are_known(source: int, wanted: int | None) -> None:
    assert _ran("MUFU.RCP", "R4,R5", {"R5": source})["R4"] == wanted


@pytest.mark.parametrize(
    ("opcode", "least", "wanted"),
    [
        ("VIADDMNMX", "PT", -60),
        ("VIADDMNMX", "!PT", 7),
        ("VIADDMNMX.U32", "PT", 7),
        ("VIADDMNMX.U32", "!PT", -60),
    ],
)
def test_a_sum_and_its_bound(opcode: str, least: str, wanted: int) -> None:
    """Of 4 - 64 and 7 the smaller or the larger one, as numbers with and without sign."""
    found = _ran(opcode, f"R4,R5,0xffffffc0,R6,{least}", {"R5": 4, "R6": 7})
    assert found["R4"] == wanted & 0xFFFFFFFF


def test_predicates_are_packed_and_unpacked() -> None:
    """P2R and R2P: what ptxas does where even bits set under guards do not suffice."""
    packed = _ran("P2R", "R4,R5,0x5", {"P0": True, "P1": True, "P2": True, "R5": 0xF0})
    assert packed["R4"] == 0xF5
    other = _ran("P2R.B1", "R4,RZ,0x7f", {"P0": False, "P6": True})
    assert other["R4"] == 0x4000
    found = _ran("R2P", "PR,R4,0x6", {"R4": 0b011, "P0": False, "P2": True})
    assert (found["P0"], found["P1"], found["P2"]) == (False, True, False)
    assert results_of(Instruction(0, "R2P", ("PR", "R4", "0x6"), "", Control.decode(0), None)) == [
        "P1",
        "P2",
    ]
