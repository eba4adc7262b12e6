"""Levels below tiles: the scheduled one, and the lines that code stands for."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.explain.kernels import EXAMPLES
from tests.gpu.support import requires_libdevice, requires_nvdisasm

from tilewright import parse, print_text
from tilewright.diagnostics import TileIRError, define_code
from tilewright.explain.levels import Explanation, Level, explain_kernel
from tilewright.explain.line_tables import read_llvm, read_ptx, read_sass
from tilewright.explain.stages import LEVELS, Stages
from tilewright.launching import threads

REFUSED = define_code("test-explain-refused", "A schedule that a test refuses.", "By hand.")
PRODUCT = EXAMPLES / "matmul.tileir"
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4}\*/ +(?:@!?U?P\w+ +)?([\w.]+)")
#: A function that is inlined, below a kernel.
CALLS = """gpu.module @m {
  func.func @doubled(%x: f32) -> f32 {
    %y = arith.addf %x, %x : f32
    func.return %y : f32
  }
  gpu.func @k(%a: memref<32xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<32xf32>
    %y = func.call @doubled(%x) : (f32) -> f32
    memref.store %y, %a[%i] : memref<32xf32>
    gpu.return
  }
}
"""


def _instructions(sass: str) -> Counter[str]:
    found: list[str] = _INSTRUCTION.findall(sass)
    return Counter(name for name in found if not re.match(r"U?MOV|NOP", name))


def explain(path: Path, target: str = "sm_90a") -> Explanation:
    return explain_kernel(parse(path.read_text(encoding="utf-8"), str(path)), target=target)


def level(found: Explanation, key: str) -> Level:
    return next(level for level in found.levels if level.key == key)


def twins(found: Explanation, start: str, text: str, end: str) -> set[str]:
    """The lines of a level that stand for those of another one that hold a text."""
    links = {link for line in level(found, start).lines if text in line.text for link in line.links}
    assert links, text
    return {line.text.strip() for line in level(found, end).lines if links & set(line.links)}


@pytest.fixture(scope="module")
def product() -> Explanation:
    return explain(PRODUCT)


@requires_nvdisasm
@pytest.mark.oracle
@requires_libdevice
@pytest.mark.parametrize(
    "path",
    [EXAMPLES / "softmax.tileir", PRODUCT, *(EXAMPLES / "nvgpu").glob("matmul_*.mlir")],
    ids=lambda path: path.name,
)
@pytest.mark.rotates(2)
def test_code_is_the_same_with_lines_and_without(path: Path) -> None:
    found = explain(path)
    stages = Stages(found.module, found.kernel.symbol, "sm_90a")
    for key in ("llvm", "ptx", "sass"):
        lines = level(found, key).lines
        assert sum(bool(line.links) for line in lines) > len(lines) / 4
        plain, shown = stages.text(key).expandtabs(), "\n".join(line.text for line in lines)
        if key == "sass":
            # With lines to keep, ptxas chooses other registers here and there, and so other moves.
            assert _instructions(shown) == _instructions(plain)
        else:
            assert shown.splitlines() == plain.splitlines()


@requires_nvdisasm
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("arch", "mnemonics"),
    # Of wgmma ptxas tells the line of what stands around it.
    [("sm_80", {"ptx": "mma.sync", "sass": "HMMA"}), ("sm_90a", {"ptx": "wgmma.mma_async"})],
)
def test_code_leads_to_the_operation_and_back(arch: str, mnemonics: dict[str, str]) -> None:
    product = explain(PRODUCT, arch)
    for key, mnemonic in mnemonics.items():
        assert any(mnemonic in line for line in twins(product, "tile", " = mmaf ", key))
        (operation,) = twins(product, key, mnemonic, "tile")
        assert " = mmaf " in operation
        assert any("mma" in line for line in twins(product, key, mnemonic, "llvm"))


@requires_nvdisasm
@pytest.mark.oracle
def test_every_instruction_of_a_loop_comes_from_somewhere(product: Explanation) -> None:
    for line in level(product, "sass").lines:
        if re.search(r"\b(HMMA|HGMMA|UTMALDG|FFMA|STG|LDG|LDGSTS|LDSM|BAR)\b", line.text):
            assert line.links, line.text


def test_assembly_of_the_cpu_leads_to_the_operation_and_back(product: Explanation) -> None:
    pytest.importorskip("llvmlite")
    assert twins(product, "tile", " = mmaf ", "asm")
    lines = level(product, "asm").lines
    assert not any(re.match(r"\s*\.(loc|cfi_\w+)\b|\.Ltmp", line.text) for line in lines)
    links = {link for line in lines for link in line.links}
    told = [line for line in level(product, "tile").lines if links & set(line.links)]
    for operation in ("load_view_tko", "mmaf", "store_view_tko", "for "):
        assert any(operation in line.text for line in told), operation


def test_machine_code_stands_close_to_its_address() -> None:
    text = (
        ".text.k:\n        /*0900*/                   LDC R1, c[0x0][0x28] ;\n"
        '        //## File "kernel", line 7\n        /*0910*/              @!UP2 IMAD R2, R1, R1, RZ ;\n'
    )
    assert read_sass(text) == [
        (".text.k:", None),
        ("  /*0900*/       LDC R1, c[0x0][0x28] ;", None),
        ("  /*0910*/ @!UP2 IMAD R2, R1, R1, RZ ;", 7),
    ]


def test_the_scheduled_level(product: Explanation) -> None:
    keys = [level.key for level in product.levels]
    assert keys.index("nv_tileas") == keys.index("final") + 1 == keys.index("nvgpu") - 1
    assert "nv_tileas" in "".join(line.text for line in level(product, "nv_tileas").lines)
    (operation,) = twins(product, "nv_tileas", "nv_tileas.dot", "tile")
    assert " = mmaf " in operation
    module = parse(PRODUCT.read_text())
    text = Stages(module, "matmul", "sm_90a").text("nv_tileas")
    assert print_text(parse(text)) == text
    assert LEVELS["nv_tileas"].suffix == "mlir"


def test_a_kernel_without_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise TileIRError.single(REFUSED, "no layout is known")

    monkeypatch.setattr(threads, "lower_scheduled", refuse)
    found = explain(EXAMPLES / "vector_add.tileir")
    assert found.missing["nv_tileas, scheduled"] == "no layout is known"
    assert {"nvgpu", "ptx"} <= {level.key for level in found.levels}


@requires_nvdisasm
@pytest.mark.oracle
def test_lines_of_functions_that_are_inlined(tmp_path: Path) -> None:
    (path := tmp_path / "calls.mlir").write_text(CALLS)
    found = explain(path)
    assert "nv_tileas, scheduled" not in found.missing
    for key, mnemonic in (("ptx", "add.rn.f32"), ("sass", "FADD")):
        assert "%y = arith.addf %x, %x : f32" in twins(found, key, mnemonic, "nvgpu")
    assert [line.text for line in level(found, "ptx").lines] == Stages(
        found.module, "k", "sm_90a"
    ).text("ptx").expandtabs().splitlines()


def test_readers_of_line_tables() -> None:
    llvm = """define void @k() !dbg !4 {
  %a = load i32, ptr null, align 4, !range !7, !dbg !5
  ret void, !dbg !6
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: DebugDirectivesOnly)
!1 = !DIFile(filename: "kernel", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "k", scope: !1, line: 1, unit: !0)
!5 = !DILocation(line: 3, scope: !4)
!6 = !DILocation(line: 0, scope: !4)
!7 = !{i32 0, i32 2}
"""
    assert read_llvm(llvm) == [
        ("define void @k() {", None),
        ("  %a = load i32, ptr null, align 4, !range !0", 3),
        ("  ret void", None),
        ("}", None),
        ("", None),
        ("!0 = !{i32 0, i32 2}", None),
    ]
    ptx = """.visible .entry k()
{
\t.reg .b32 %r<2>;
$L__func_begin0:
\t.loc 1 12 0
\tmov.u32 %r1, %tid.x;
$L__BB0_1:
\t@%p1 bra $L__BB0_1;
\t.loc 1 0 0
\tret;
$L__func_end0:
}
\t.file 1 "kernel"
\t.section .debug_str
\t{
$L__info_string0:
.b8 102
\t}
"""
    assert read_ptx(ptx) == [
        (".visible .entry k()", None),
        ("{", None),
        ("\t.reg .b32 %r<2>;", None),
        ("\tmov.u32 %r1, %tid.x;", 12),
        ("$L__BB0_1:", None),
        ("\t@%p1 bra $L__BB0_1;", 12),
        ("\tret;", None),
        ("}", None),
    ]
    sass = """.text.k:
        /*0000*/ MOV R1, c[0x0][0x28] ;
\t//## File "kernel", line 3 inlined at "kernel", line 9
\t//## File "kernel", line 9
        /*0010*/ FADD R0, R0, R0 ;
.L_x_0:
        /*0020*/ EXIT ;
"""
    assert [place for _, place in read_sass(sass)] == [None, None, 3, None, 3]
