"""The constants of GPUs, and files that change them."""

from __future__ import annotations

import json

import pytest

from tilewright.diagnostics import TileIRError
from tilewright.model.tables import GPUS, gpu_named, load_constants


@pytest.mark.parametrize("name", GPUS)
def test_every_number_has_a_unit_and_a_source(name: str) -> None:
    for key, constant in GPUS[name].constants.items():
        assert constant.unit and constant.source, key
        assert constant.value >= 0, key


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
    with pytest.raises(TileIRError, match="no table for the GPU 'v100'"):
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
    with pytest.raises(TileIRError, match=message):
        load_constants(text, GPUS["h100"])


@pytest.mark.parametrize("name", ["a100", "h100", "h200", "b200", "rtx4090", "rtx5090"])
def test_what_is_shown_can_be_read(name: str) -> None:
    gpu = gpu_named(name)
    rows = {key: {"value": c.value, "source": c.source} for key, c in gpu.constants.items()}
    read = load_constants(json.dumps({"gpu": name, "constants": rows}), gpu)
    assert {key: c.value for key, c in read.constants.items()} == {
        key: c.value for key, c in gpu.constants.items()
    }
