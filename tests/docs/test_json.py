"""Every form of JSON is as its schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.model.support import requires_tools

import tilewright
from tilewright.cli.main import main
from tilewright.machine.find_nan import find_nan

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = sorted((ROOT / "docs" / "schemas").glob("*.schema.json"))
KERNEL = """entry @k(%out: tile<ptr<f32>>, %x: tile<f32>) {
  %y = log %x : tile<f32>
  %t = store_ptr_tko weak %out, %y : tile<ptr<f32>>, tile<f32> -> token
}
"""


def check(name: str, value: Any) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())
    jsonschema.validate(value, schema)
    assert schema["$id"] == f"tilewright:{name}-1"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.tileir"
    path.write_text(KERNEL)
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main(list(words))
    return json.loads(capsys.readouterr().out)


LAUNCH = ("--grid", "2", "--arg", "zeros:f32:4", "--arg", "0.0")


def test_diagnostics(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kernel.parent / "bad.tileir").write_text("entry @k() { %a = addi %b, %c : tile<i32> }")
    found = printed(capsys, "check", "--format", "json", "bad.tileir")
    assert found
    check("diagnostics", found)


def test_sanitize(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "sanitize", "--format", "json", "k.tileir", *LAUNCH)
    assert found["findings"][0]["accesses"]
    check("sanitize", found)


@pytest.mark.parametrize("machine", ["reference", "cpu", "sim:sm_90a"])
def test_run(kernel: Path, capsys: pytest.CaptureFixture[str], machine: str) -> None:
    words = ("run", "--json", "--machine", machine, "--print", "out", "k.tileir", *LAUNCH)
    check("run", printed(capsys, *words))


def test_trace(kernel: Path) -> None:
    assert main(["run", "--trace", "t.jsonl", "--trace-limit", "2", "k.tileir", *LAUNCH]) == 0
    lines = [json.loads(line) for line in (kernel.parent / "t.jsonl").read_text().splitlines()]
    assert {line["event"] for line in lines} >= {"launch", "op"}
    for line in lines:
        check("trace", line)


@requires_tools
@pytest.mark.oracle
def test_profile(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("profile", "k.tileir", "--gpu", "a100", *LAUNCH, "--json")
    before = printed(capsys, *words)
    check("profile", before)
    (kernel.parent / "before.json").write_text(json.dumps(before))
    compared = printed(capsys, *words, "--compare", "before.json")
    assert compared["compared"][0]["before"] == compared["compared"][0]["after"]
    check("profile", compared)


@requires_tools
@pytest.mark.oracle
@pytest.mark.rotates(2)
def test_tune(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("tune", "k.tileir", *LAUNCH, "--no-keep", "--json")
    found = printed(capsys, *words, "--hint", "num_worker_warps_per_cta=1,2", "--measure", "0")
    assert len(found["searches"][0]["ranked"]) == 2
    check("tune", found)
    found = printed(
        capsys, *words, "--hint", "occupancy=1", "--measure", "1", "--measure-on", "reference"
    )
    assert found["searches"][0]["ranked"][0]["measured_seconds"] > 0
    check("tune", found)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_remarks(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compile", str(ROOT / "examples" / "matmul.tileir"), "--target", target)
    found = printed(capsys, *words, "-o", str(tmp_path / "code"), "--remarks-json", "-")
    check("remarks", found)
    (kernel,) = found["kernels"]
    assert (found["target"], kernel["kernel"]) == (target, "matmul")
    remarks = {remark["kind"]: remark for remark in kernel["remarks"]}
    (ring,) = (remark for remark in kernel["remarks"] if remark["kind"] == "ring")
    assert ring["pass"] == "tileas-pipeline"
    assert ring["figures"]["tiles"] == 2
    assert ring["figures"]["bytes"] == 8192 * ring["figures"]["stages"]
    assert ring["file"].endswith("matmul.tileir") and ring["line"] > 0
    assert f"{ring['figures']['stages']} stages" in ring["message"]
    assert remarks["product"]["figures"] == {}


def test_remarks_on_native_code(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.write_text(KERNEL.replace("log %x", "pow %x, %x"))
    found = printed(capsys, "compile", "k.tileir", "-o", "k.s", "--remarks-json", "-")
    check("remarks", found)
    (remark,) = found["kernels"][0]["remarks"]
    assert (remark["kind"], remark["pass"], remark["line"]) == ("power", "constant-powers", 2)


def test_campaign(kernel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    racy = f"// $ tilewright run racy.tileir --grid 2 --arg zeros:f32:4 --arg 1.0\n{KERNEL}"
    (kernel.parent / "racy.tileir").write_text(racy)
    (kernel.parent / "bad.tileir").write_text("entry @k() { %a = addi %b, %c : tile<i32> }")
    words = ("check", "--campaign", ".", "--seeds", "1", "--no-keep", "--format", "json")
    found = printed(capsys, *words)
    assert {job["program"]: job["status"] for job in found["jobs"]} == {
        "bad.tileir": "findings",
        "k.tileir": "clean",
        "racy.tileir": "findings",
    }
    check("campaign", found)


def test_nan() -> None:
    report = find_nan(tilewright.parse(KERNEL), "k", 1, [np.zeros(1, np.float32), 0.0])
    assert report.findings
    check("nan", json.loads(json.dumps(report.to_json(), allow_nan=False)))


PROGRAM = """import numpy as np
import cuda.tile as ct

@ct.kernel
def clash(c, n: ct.Constant[int]):
    ct.store(c, (0,), ct.full((n,), ct.bid(0), c.dtype))

ct.launch(0, (2,), clash, (np.zeros(4, np.float32), 4))
ct.launch(0, (2,), clash, (np.zeros(4, np.float32), 2))
print("done")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PROGRAM)
    return "p.py"


@pytest.mark.parametrize("machine", ["reference", "cpu", "sim:sm_90a"])
def test_run_of_a_program(program: str, capsys: pytest.CaptureFixture[str], machine: str) -> None:
    found = printed(capsys, "run", "--json", "--machine", machine, program)
    assert [each["specialisation"] for each in found["launches"]] == [1, 2]
    assert all(("counters" in each) == machine.startswith("sim") for each in found["launches"])
    check("run_program", found)


def test_sanitize_of_a_program(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "sanitize", "--format", "json", program)
    assert found["launches"] == 2 and found["findings"]
    check("sanitize_program", found)


@pytest.mark.parametrize(
    "words",
    [["load_view_tko"], ["nvgpu.mbarrier.init"], ["f8E4M3FN"], ["tile"], ["race"], ["--list"]],
)
def test_explain(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "explain", "--format", "json", *words)
    assert found
    check("explain", found)


def test_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    check("cache", printed(capsys, "cache", "--json"))


@pytest.mark.parametrize("words", [[], ["--json"]], ids=str)
def test_constants(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "profile", "--gpu", "h100", "--show-constants", *words)
    assert found["constants"]
    check("constants", found)


def test_every_schema_is_told_and_tested() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    tests = Path(__file__).read_text(encoding="utf-8")
    assert len(SCHEMAS) == 14
    for path in SCHEMAS:
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))
        name = path.name.removesuffix(".schema.json")
        assert f"schemas/{path.name}" in text
        assert f'check("{name}"' in tests
