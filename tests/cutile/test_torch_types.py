"""torch's old types and constructors of tensors, and tensors as text, on the device cuda of the CPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="torch is not installed")

from tilewright.cutile.torch_cuda import pretended_cuda  # noqa: E402

TYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


@pytest.fixture(autouse=True)
def cuda() -> Iterator[None]:
    with pretended_cuda():
        yield


@pytest.mark.parametrize("module", ["torch", "torch.cuda"])
@pytest.mark.parametrize("name", TYPES)
def test_types_make_tensors_and_know_them(name: str, module: str) -> None:
    namespace: Any = torch.cuda if module == "torch.cuda" else torch
    other: Any = torch if module == "torch.cuda" else torch.cuda
    made = getattr(namespace, name)([1, 0, 1])
    assert made.tolist() == [1, 0, 1]
    assert made.dtype == getattr(torch, TYPES[name])
    assert made.is_cuda == (module == "torch.cuda")
    assert made.type() == f"{module}.{name}"
    assert isinstance(made, getattr(namespace, name))
    assert not isinstance(made, getattr(other, name))
    assert str(getattr(namespace, name)) == f"<class '{module}.{name}'>"
    assert getattr(namespace, name)(2, 3).shape == (2, 3)


@pytest.mark.parametrize("as_name", [False, True])
@pytest.mark.parametrize("source", ["cpu", "cuda"])
@pytest.mark.parametrize("target", ["torch.FloatTensor", "torch.cuda.FloatTensor"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_type_converts_and_moves(dtype: str, source: str, target: str, as_name: bool) -> None:
    x = torch.ones(3, dtype=getattr(torch, dtype), device=source)
    wanted = torch.cuda.FloatTensor if "cuda" in target else torch.FloatTensor
    y = x.type(target if as_name else wanted)
    assert y.type() == target
    y += 1
    shared = dtype == "float32" and (source == "cuda") == ("cuda" in target)
    assert x.tolist() == [2 if shared else 1] * 3
    assert y.tolist() == [2, 2, 2]


def test_an_element_type_stays_where_it_is() -> None:
    for source in ("cpu", "cuda"):
        assert torch.ones(3, device=source).type(torch.float16).device.type == source


def test_tensors_without_a_device_are_in_host_memory() -> None:
    x = torch.zeros(2, device="cuda")
    assert torch.Tensor([1.0, 2.0]).device.type == "cpu"
    assert torch.Tensor(3).device.type == "cpu"
    assert torch.Tensor(x).device.type == "cuda"
    assert x.new([1, 2]).device.type == "cuda"
    assert torch.nn.Parameter(x).device.type == "cuda"


def test_the_default_type() -> None:
    try:
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
        x = torch.zeros(2)
        assert x.is_cuda and x.dtype == torch.float64
        torch.set_default_tensor_type(torch.FloatTensor)
        x = torch.zeros(2)
        assert not x.is_cuda and x.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_text_tells_the_device() -> None:
    x = torch.arange(3.0, device="cuda")
    assert repr(x) == "tensor([0., 1., 2.], device='cuda:0')"
    assert str(x.bfloat16()) == "tensor([0., 1., 2.], device='cuda:0', dtype=torch.bfloat16)"
    assert repr(x[1]) == "tensor(1., device='cuda:0')"
    assert f"{x[1]:.2f}" == "1.00"
    assert repr(x.cpu()) == "tensor([0., 1., 2.])"
    assert repr([x.cpu(), x[:1]]) == "[tensor([0., 1., 2.]), tensor([0.], device='cuda:0')]"
    x.requires_grad_()
    assert repr(x) == "tensor([0., 1., 2.], device='cuda:0', requires_grad=True)"
    assert repr(torch.nn.Parameter(x)).startswith("Parameter containing:\ntensor([0., 1., 2.], dev")
    assert repr(torch.zeros((0, 2), device="cuda")) == "tensor([], device='cuda:0', size=(0, 2))"


@pytest.mark.usefixtures("torch")  # for the process that it starts
def test_afterwards_torch_is_as_before() -> None:
    code = """
import torch
from tilewright.cutile.torch_cuda import pretended_cuda
before = torch.FloatTensor, torch.cuda.FloatTensor, torch.Tensor.__init__
with pretended_cuda():
    x = torch.zeros(2, device="cuda")
    assert torch.FloatTensor is not before[0]
assert (torch.FloatTensor, torch.cuda.FloatTensor, torch.Tensor.__init__) == before
assert "__init__" not in vars(torch.Tensor)
assert repr(x) == "tensor([0., 0.])" and x.type() == "torch.FloatTensor"
assert torch.Tensor([1.0]).tolist() == [1.0]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
