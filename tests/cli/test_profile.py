"""``tilewright profile``: cubins and kernels of ours, as people would call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.model.support import assembled, requires_tools

pytestmark = [requires_tools, pytest.mark.oracle]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_LOOP = """
  mov.u32 %r3, %laneid; .pragma "nounroll";
  L: bar.sync 0; st.volatile.global.u32 [%rd0], %r3; add.u32 %r3, %r3, 1;
  setp.lt.u32 %p0, %r3, %r0; @%p0 bra L;
"""


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cubins") / "loop.cubin"
    path.write_bytes(assembled(_LOOP).cubin)
    return path


def test_arguments_tell_how_often_loops_run(command: Command, cubin: Path) -> None:
    ran = command(
        *("profile", "--cubin", cubin, "--gpu", "h100", "--grid", "132"),
        *("--arg", "zeros:f32:1024", "--arg", "12", "--json"),
    )
    assert ran.status == 0, ran.err
    data = json.loads(ran.text)
    assert data["modelled"] is True
    (found,) = data["launches"]
    assert [(loop["name"], loop["turns"]) for loop in found["loops"]] == [("L0", 12)]
    assert found["memory_bytes"] == 4096


def test_turns_may_be_given(command: Command, cubin: Path) -> None:
    args = ("profile", "--cubin", cubin, "--gpu", "h100", "--json")
    missing = command(*args)
    assert missing.status == 1
    assert "--trips L0=N" in missing.err
    given = command(*args, "--trips", "L0=30", "--kernel", "k")
    assert json.loads(given.text)["launches"][0]["loops"][0]["turns"] == 30


def test_the_text_says_what_it_is(command: Command, cubin: Path) -> None:
    ran = command("profile", "--cubin", cubin, "--gpu", "h200", "--trips", "L0=3")
    assert ran.status == 0
    assert "on H200 SXM: modelled" in ran.text
    assert "known error" in ran.text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--gpu", "v100"), 1, "no GPU 'v100'"),
        (("--gpu", "a100"), 1, "code for sm_90, which cannot run on the A100"),
        (("--gpu", "h100", "--kernel", "other"), 1, "no kernel 'other'"),
        (("--gpu", "h100", "--trips", "L9=4"), 2, "not of the form LOOP=N"),
        (("--gpu", "h100", "--trips", "L0"), 2, "not of the form LOOP=N"),
        (("--gpu", "h100", "--arg", "x=3"), 2, "no parameter 'x'"),
        (("--gpu", "h100", "--arg", "what"), 2, "neither a number nor an array"),
        (("--gpu", "h100", "--arg", "array:zeros:f32:8x8x8"), 2, "for 7 parameters"),
        (("--gpu", "h100", "--arg", "zeros:f33:8"), 2, "no element type 'f33'"),
        (("--gpu", "h100", "--block", "64"), 2, "requires blocks of (32, 1, 1)"),
        (("--gpu", "h100", "--grid", "0"), 2, "an extent of the launch is 0"),
        (("--gpu", "h100", "--dynamic-shared", "300000", "--trips", "L0=2"), 1, "does not fit"),
        (("--gpu", "h100", "file.tileir"), 2, "either FILE or --cubin"),
    ],
)
def test_what_cannot_be_done_is_said(
    command: Command, cubin: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    ran = command("profile", "--cubin", cubin, *arguments)
    assert message in ran.err
    assert ran.status == status


def test_files_that_are_no_cubins(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "not.cubin"
    path.write_bytes(b"text")
    ran = command("profile", "--cubin", path, "--gpu", "h100")
    assert (ran.status, "not a readable cubin" in ran.err) == (1, True)


def test_nothing_to_profile(command: Command) -> None:
    ran = command("profile", "--gpu", "h100")
    assert (ran.status, "no input to profile" in ran.err) == (2, True)


def test_constants_can_be_shown_and_changed(command: Command, cubin: Path, tmp_path: Path) -> None:
    shown = command("profile", "--gpu", "h100", "--show-constants")
    data = json.loads(shown.text)
    assert data["constants"]["hbm_rate"]["unit"] == "GB/s of the whole GPU"
    data["constants"] = {"barrier_latency": {"value": 3000, "source": "a test"}}
    path = tmp_path / "h100.json"
    path.write_text(json.dumps(data))
    args = ("profile", "--cubin", cubin, "--gpu", "h100", "--trips", "L0=9", "--json")
    (slow,) = json.loads(command(*args, "--constants", path).text)["launches"]
    (fast,) = json.loads(command(*args).text)["launches"]
    assert slow["clocks"] > fast["clocks"] + 8 * 2000


def test_kernels_of_ours(command: Command) -> None:
    ran = command(
        *("profile", EXAMPLES / "vector_add.tileir", "--gpu", "a100", "--grid", "1000", "--json")
    )
    assert ran.status == 0, ran.err
    (found,) = json.loads(ran.text)["launches"]
    assert found["gpu"] == "a100"
    assert found["seconds"] >= found["roofline_seconds"] > 0


_SOFTMAX = """
import cuda.tile as ct
import numpy as np

@ct.kernel
def softmax(x, out, width: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    powers = ct.exp(values - ct.max(values, 1, keepdims=True))
    ct.store(out, (row, 0), powers / ct.sum(powers, 1, keepdims=True))

x = np.full((ROWS, 1000), 7, np.float32)
out = np.full_like(x, 3)
for _ in range(2):
    ct.launch(0, (ROWS,), softmax, (x, out, 1024))
ct.launch(0, (8,), softmax, (x, out, 1024))
assert (out == 3).all() and (x == 7).all(), "the profile wrote to an array"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "softmax.py"
    path.write_text(_SOFTMAX.replace("ROWS", "2048"))
    return path


def test_launches_of_a_program(command: Command, program: Path, tmp_path: Path) -> None:
    """Each kind of launch once, with the lines of the program; nothing runs and nothing is written."""
    page, before = tmp_path / "page.html", tmp_path / "before.json"
    ran = command("profile", program, "--gpu", "h100", "--json", "--html", page)
    assert ran.status == 0, ran.err
    before.write_text(ran.text)
    data = json.loads(ran.text)
    many, few = data["launches"]
    assert [launch["count"] for launch in (many, few)] == [2, 1]
    assert many["name"] == "softmax on 2048x1x1"
    assert many["bound_by"] == "memory"
    assert many["simulated"] > 0
    assert sum(cost["share"] for cost in many["lines"]) == pytest.approx(1)
    assert {cost["line"] for cost in many["lines"]} >= {8, 10}
    assert data["seconds"] == pytest.approx(2 * many["seconds"] + few["seconds"])
    text = page.read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert "values = ct.load(x" in text
    faster = command("profile", "--gpu", "h200", "--compare", before, program)
    assert faster.status == 0, faster.err
    assert "compared with" in faster.text
    assert "softmax on 2048x1x1: " in faster.text


def test_options_of_files_are_refused_for_programs(command: Command, program: Path) -> None:
    for words in (("--grid", "3"), ("--arg", "5"), ("--block", "64")):
        ran = command("profile", program, "--gpu", "h100", *words)
        assert ran.status == 2
        assert "does not apply to programs" in ran.err
    ran = command("profile", program, "--gpu", "h100", "--kernel", "other")
    assert (ran.status, "compiles no kernel 'other'" in ran.err) == (2, True)


def test_arguments_of_a_program_follow_two_dashes(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "asked.py"
    path.write_text("import sys\nrows = sys.argv[1]\n" + _SOFTMAX.replace("ROWS", "int(rows)"))
    ran = command("profile", path, "--gpu", "a100", "--json", "--", "512")
    assert json.loads(ran.text)["launches"][0]["grid"] == [512, 1, 1]


def test_files_that_are_no_profiles(command: Command, cubin: Path, tmp_path: Path) -> None:
    args = ("profile", "--cubin", cubin, "--gpu", "h100", "--trips", "L0=3", "--compare")
    for text in ("", "[]", '{"format": 0, "launches": []}', '{"format": 1}'):
        path = tmp_path / "other.json"
        path.write_text(text)
        ran = command(*args, path)
        assert (ran.status, "[model-bad-comparison]: " in ran.err) == (1, True)
        assert "is not a profile to compare with" in ran.err


def test_a_file_with_all_arguments_is_simulated(command: Command) -> None:
    words = (
        "--gpu",
        "a100",
        "--grid",
        "64",
        "--arg",
        "zeros:f32:64x256",
        "--arg",
        "zeros:f32:64x256",
    )
    words += ("--arg", "64", "--arg", "256", "--json")
    (ran,) = json.loads(command("profile", EXAMPLES / "softmax.tileir", *words).text)["launches"]
    assert ran["simulated"] > 0
    (still,) = json.loads(command("profile", EXAMPLES / "softmax.tileir", *words, "--static").text)[
        "launches"
    ]
    assert still["simulated"] == 0
    assert still["blind"]


_GUARDED = """
  mov.u32 %r3, %laneid; setp.lt.u32 %p0, %r0, 1; @%p0 bra D; .pragma "nounroll";
  L: bar.sync 0; st.volatile.global.u32 [%rd0], %r3; add.u32 %r3, %r3, 1;
  setp.lt.u32 %p0, %r3, %r0; @%p0 bra L; D: st.volatile.global.u32 [%rd0], %r3;
"""


def test_loops_that_arguments_decide_on_are_not_left_out(command: Command, tmp_path: Path) -> None:
    """A branch around a loop that depends on an argument is not known either, where nobody gives it."""
    path = tmp_path / "guarded.cubin"
    path.write_bytes(assembled(_GUARDED).cubin)
    args = ("profile", "--cubin", path, "--gpu", "h100", "--json")
    missing = command(*args)
    assert missing.status == 1
    assert "--arg" in missing.err or "--trips" in missing.err
    known = command(*args, "--arg", "zeros:f32:1024", "--arg", "7")
    (found,) = json.loads(known.text)["launches"]
    assert [loop["turns"] for loop in found["loops"]] == [7]
    none = command(*args, "--arg", "zeros:f32:1024", "--arg", "0")
    assert json.loads(none.text)["launches"][0]["loops"] == []


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5])
def test_some_of_the_arguments_do_not_leave_loops_out(command: Command, count: int) -> None:
    arrays = ["zeros:f16:64x64", "zeros:f16:64x64", "zeros:f32:64x64"]
    given = [word for spec in [*arrays, "64", "64", "64"][:count] for word in ("--arg", spec)]
    args = ("profile", EXAMPLES / "matmul.tileir", "--gpu", "h100", "--grid", "4,4", *given)
    missing = command(*args)
    assert missing.status == 1
    assert "depends on missing arguments" in missing.err
