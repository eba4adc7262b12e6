"""Every code is named by a test, and those that no other test names are met here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.gpu.kernels import kernel
from tests.gpu.support import ptx_of, requires_ptxas
from tests.machine.tileaa import support
from tests.nv_tileas import test_rules as rules
from tests.test_structure import FILES, nodes
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tilewright import gpu
from tilewright.campaign.jobs import Outcome, Status
from tilewright.campaign.store import Store
from tilewright.cli.main import main
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.gpu.llvm import parse_ir
from tilewright.lowering import TileAAOptions
from tilewright.passes.tileas.band_order import check_band
from tilewright.text import parse

TESTS = Path(__file__).resolve().parent.parent
#: The files of tests that name codes.
KINDS = {".py", ".tileir", ".mlir", ".txt", ".json", ".md"}


def defined_codes() -> set[str]:
    """The first argument of each ``define_code`` in the package."""
    return {
        argument.value
        for name in FILES
        for node in nodes(name)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("define_code")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def constants() -> dict[str, set[str]]:
    """The codes by the names of constants that have them."""
    found: dict[str, set[str]] = {}
    for name in FILES:
        for node in FILES[name].body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func).endswith("define_code")
                and isinstance(code := node.value.args[0], ast.Constant)
            ):
                found.setdefault(ast.unparse(node.targets[0]), set()).add(str(code.value))
    return found


def code_of(error: pytest.ExceptionInfo[TileIRError]) -> str:
    return error.value.diagnostics[0].code


@pytest.mark.parametrize("band", [1, 1025])
def test_bands(band: int) -> None:
    with pytest.raises(TileIRError) as error:
        check_band(band)
    assert code_of(error) == "bad-block-band"


@pytest.mark.parametrize("grid", [(0,), (1, 1, 1, 1), (2, -1)])
def test_grids_that_a_lowering_is_told(grid: tuple[int, ...]) -> None:
    with pytest.raises(TileIRError) as error:
        TileAAOptions(grid=grid)
    assert code_of(error) == "bad-launch-grid"


def test_stores(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else\n")
    for path in (tmp_path, other):
        with pytest.raises(TileIRError) as error:
            Store(path)
        assert code_of(error) == "campaign-bad-store"
    store = Store(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    with pytest.raises(TileIRError) as error:
        store.add(Outcome("key", "label", Status.DONE))
    assert code_of(error) == "campaign-bad-store"


@requires_ptxas
@pytest.mark.oracle
def test_code_that_the_assembler_refuses() -> None:
    with pytest.raises(TileIRError) as error:
        gpu.assemble("this is no PTX", "sm_80")
    assert code_of(error) == "gpu-assembler-failed"


def test_code_that_llvm_refuses() -> None:
    with pytest.raises(TileIRError) as error:
        parse_ir("this is no LLVM IR", gpu.ARCHITECTURES["sm_80"], 80, libdevice=False)
    assert code_of(error) == "gpu-llvm-failed"


def test_functions_without_a_body() -> None:
    body = "%n = arith.constant 1 : i32\nfunc.call @f(%n) : (i32) -> ()"
    with pytest.raises(TileIRError) as error:
        ptx_of(kernel("", body, around="func.func private @f(i32)"), "sm_80")
    assert code_of(error) == "gpu-unknown-symbol"


def test_stages_that_nobody_fills() -> None:
    text = support.kernel_text(rules.consume("wait read release"), {}, {})
    with pytest.raises(TileIRError) as error:
        support.launch(text)
    assert code_of(error) == "pipeline-waits-for-ever"


@pytest.mark.parametrize("number", [-1, 3])
def test_stages_that_a_storage_does_not_have(number: int) -> None:
    body = f"%i = arith.constant {number} : index\n{rules.stage('3x8xf32, smem', '8xf32, smem')}"
    with pytest.raises(TileIRError) as error:
        support.launch(support.kernel_text(body, {}, {}))
    assert code_of(error) == "stage-outside"


def test_files_of_an_unknown_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text\0")
    assert main(["check", str(path)]) == 1
    assert "error[unknown-file-format]: " in capsys.readouterr().err


def test_constants_that_the_text_makes_ill_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No operation of ours is known to make one; an attribute that refuses what it is given is told all the same."""

    def parse_wrongly(parser: Parser) -> TileOp:
        raise VerifyException("such attributes do not exist")

    monkeypatch.setattr(OPERATIONS["return"], "parse", parse_wrongly)
    with pytest.raises(TileIRError, match="such attributes do not exist") as error:
        parse("entry @k() {\n  return\n}")
    assert code_of(error) == "invalid-operation"
    assert error.value.diagnostics[0].line == 2


def test_every_code_is_named_by_a_test() -> None:
    """By its name or by a constant that has it, so that another code for the same message is noticed."""
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("*") if path.suffix in KINDS]
    words = {word for text in texts for word in re.findall(r"[A-Za-z0-9_]+(?:-[a-z0-9]+)*", text)}
    named = words | {code for name in constants().keys() & words for code in constants()[name]}
    defined = defined_codes()
    assert len(defined) > 300
    assert not sorted(defined - named)
