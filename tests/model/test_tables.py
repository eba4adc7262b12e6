"""The constants of GPUs, and files that change them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tilewright import model
from tilewright.diagnostics import TileIRError
from tilewright.model.tables import GPUS, gpu_named, load_constants


@pytest.mark.parametrize("name", GPUS)
def test_every_number_has_a_unit_and_a_source(name: str) -> None:
    for key, constant in GPUS[name].constants.items():
        assert constant.unit and constant.source, key
        assert constant.value >= 0, key


#: What a source names: a document, or that there is none.
_SOURCES = re.compile(
    r"arXiv \d{4}\.\d{5}|CUDA |NVIDIA .*(white paper|data sheet)|estimate of this project|as H100; no public|"
    r"sm_80 has no |no wgmma"
)


@pytest.mark.parametrize("name", GPUS)
def test_sources_are_documents_or_say_that_there_is_none(name: str) -> None:
    for key, constant in GPUS[name].constants.items():
        assert _SOURCES.search(constant.source), (key, constant.source)


def test_all_numbers_are_used() -> None:
    """Also by the names that other tables give them, such as those of pipes."""
    text = "".join(path.read_text() for path in MODEL.glob("*.py") if path.name != "tables.py")
    unused = [key for key in GPUS["h100"].constants if f'"{key}"' not in text]
    assert not unused


#: Where the engine is, and what a number of more than 2 may be there: threads of a warp, quarters of a multiprocessor, bytes of words, extents
#: of instructions, formats of machine code, limits of what is looked at. Nothing that a GPU could be slower or faster by.
MODEL = Path(model.__file__).parent
ENGINE = {
    "work.py": {4, 8, 16, 32, 64, 128, 256},
    "micro_ops.py": {16},
    "multiprocessor.py": {32, 21, 31, 6, 0.5},
    "timing.py": {4, 1e9, 0.1, 0.5, 0.8},
    "block_times.py": {300_000},
    "l2.py": {3, 4, 8, 16, 100, 160, 1600, 80_000},
    "queueing.py": set[float](),
}


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_has_no_numbers_of_its_own(name: str) -> None:
    tree = ast.parse((MODEL / name).read_text())
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }
    assert not {number for number in numbers if number not in (0, 1, 2, *ENGINE[name])}


def test_all_tables_have_the_same_constants() -> None:
    assert len({frozenset(gpu.constants) for gpu in GPUS.values()}) == 1


@pytest.mark.parametrize(
    ("name", "tera_flops"),
    [("a100", 312), ("h100", 949), ("rtx4090", 165), ("rtx5090", 209), ("b200", 2243)],
)
def test_tensor_rates_are_those_of_the_white_papers(name: str, tera_flops: float) -> None:
    gpu = GPUS[name]
    flops = 2 * gpu["tensor_f16"] * gpu["sms"] * gpu["clock"] * 1e9
    assert flops / 1e12 == pytest.approx(tera_flops, rel=0.01)


def test_names_are_found_as_people_write_them() -> None:
    assert gpu_named("RTX 4090") is GPUS["rtx4090"]
    with pytest.raises(TileIRError, match="no GPU 'v100'"):
        gpu_named("v100")


def test_code_runs_on_its_generation_only() -> None:
    assert GPUS["rtx4090"].runs(80)
    assert GPUS["rtx4090"].runs(89)
    assert not GPUS["a100"].runs(89)
    assert not GPUS["h100"].runs(80)


def test_a_file_replaces_numbers() -> None:
    text = {"gpu": "h100", "constants": {"l2_latency": {"value": 270, "source": "measured"}}}
    changed = load_constants(json.dumps(text), GPUS["h100"])
    assert changed["l2_latency"] == 270
    assert changed.constants["l2_latency"].source == "measured"
    assert changed.constants["l2_latency"].unit == GPUS["h100"].constants["l2_latency"].unit
    assert changed["sms"] == GPUS["h100"]["sms"]


def test_what_was_estimated_from_a_number_goes_with_it() -> None:
    slower = {"shared_latency": {"value": 58, "source": "measured"}}
    changed = load_constants(json.dumps({"gpu": "h100", "constants": slower}), GPUS["h100"])
    assert changed["matrix_latency"] == 2 * GPUS["h100"]["matrix_latency"]
    slower["matrix_latency"] = {"value": 40, "source": "measured"}
    changed = load_constants(json.dumps({"gpu": "h100", "constants": slower}), GPUS["h100"])
    assert changed["matrix_latency"] == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"gpu": "h100"}', "cannot be read"),
        ('{"gpu": "a100", "constants": {}}', "of 'a100', not of 'h100'"),
        ('{"gpu": "h100", "constants": {"speed": {"value": 1}}}', "no constant 'speed'"),
        ('{"gpu": "h100", "constants": {"sms": 3}}', "needs a number"),
        ('{"gpu": "h100", "constants": {"sms": {"value": true}}}', "needs a number"),
        ('{"gpu": "h100", "constants": {"sms": {"value": NaN}}}', "needs a number"),
        ('{"gpu": "h100", "constants": {"sms": {"value": 0}}}', "more than 0"),
    ],
)
def test_files_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(TileIRError, match=rf"\[model-bad-table\]: .*{message}"):
        load_constants(text, GPUS["h100"])


@pytest.mark.parametrize("name", ["a100", "h100", "h200", "b200", "rtx4090", "rtx5090"])
def test_what_is_shown_can_be_read(name: str) -> None:
    gpu = gpu_named(name)
    rows = {key: {"value": c.value, "source": c.source} for key, c in gpu.constants.items()}
    read = load_constants(json.dumps({"gpu": name, "constants": rows}), gpu)
    assert {key: c.value for key, c in read.constants.items()} == {
        key: c.value for key, c in gpu.constants.items()
    }
