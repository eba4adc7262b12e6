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
    found = json.loads(ran.text)
    assert found["modelled"] is True
    assert [(loop["name"], loop["turns"]) for loop in found["loops"]] == [("L0", 12)]
    assert found["memory_bytes"] == 4096


def test_turns_may_be_given(command: Command, cubin: Path) -> None:
    args = ("profile", "--cubin", cubin, "--gpu", "h100", "--json")
    missing = command(*args)
    assert missing.status == 1
    assert "--trips L0=N" in missing.err
    given = command(*args, "--trips", "L0=30", "--kernel", "k")
    assert json.loads(given.text)["loops"][0]["turns"] == 30


def test_the_text_says_what_it_is(command: Command, cubin: Path) -> None:
    ran = command("profile", "--cubin", cubin, "--gpu", "h200", "--trips", "L0=3")
    assert ran.status == 0
    assert "on H200 SXM: modelled" in ran.text
    assert "known error" in ran.text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--gpu", "v100"), 1, "no table for the GPU 'v100'"),
        (("--gpu", "a100"), 1, "code for sm_90, which the A100"),
        (("--gpu", "h100", "--kernel", "other"), 1, "no kernel 'other'"),
        (("--gpu", "h100", "--trips", "L9=4"), 2, "no LOOP=N"),
        (("--gpu", "h100", "--trips", "L0"), 2, "no LOOP=N"),
        (("--gpu", "h100", "--arg", "x=3"), 2, "no parameter 'x'"),
        (("--gpu", "h100", "--arg", "what"), 2, "neither a number nor an array"),
        (("--gpu", "h100", "--arg", "array:zeros:f32:8x8x8"), 2, "for 7 parameters"),
        (("--gpu", "h100", "--arg", "zeros:f33:8"), 2, "no element type 'f33'"),
        (("--gpu", "h100", "--block", "64"), 2, "compiled for blocks of (32, 1, 1)"),
        (("--gpu", "h100", "--grid", "0"), 2, "an extent is 0"),
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
    assert (ran.status, "no cubin" in ran.err) == (1, True)


def test_nothing_to_profile(command: Command) -> None:
    ran = command("profile", "--gpu", "h100")
    assert (ran.status, "nothing to profile" in ran.err) == (2, True)


def test_constants_can_be_shown_and_changed(command: Command, cubin: Path, tmp_path: Path) -> None:
    shown = command("profile", "--gpu", "h100", "--show-constants")
    data = json.loads(shown.text)
    assert data["constants"]["hbm_rate"]["unit"] == "GB/s of the whole GPU"
    data["constants"] = {"barrier_latency": {"value": 3000, "source": "a test"}}
    path = tmp_path / "h100.json"
    path.write_text(json.dumps(data))
    args = ("profile", "--cubin", cubin, "--gpu", "h100", "--trips", "L0=9", "--json")
    slow = json.loads(command(*args, "--constants", path).text)
    assert slow["clocks"] > json.loads(command(*args).text)["clocks"] + 8 * 2000


def test_kernels_of_ours(command: Command) -> None:
    ran = command(
        *("profile", EXAMPLES / "vector_add.tileir", "--gpu", "a100", "--grid", "1000", "--json")
    )
    assert ran.status == 0, ran.err
    found = json.loads(ran.text)
    assert found["gpu"] == "a100"
    assert found["seconds"] >= found["roofline_seconds"] > 0
