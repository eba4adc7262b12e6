"""What a row of the suite ``unseen`` is, and what rows share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import cuda.tile as ct
import numpy as np
import torch

from tilewright.cutile import on

Job = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of cuTile on this CPU, beside others that do the same.

    ``outputs`` are what the kernel writes and ``expected`` what must be in them after one launch on
    arrays that ``clear`` has prepared; ``bound`` is the error allowed, relative to the largest
    expected magnitude (0: equal bits). ``peers`` run the same on arrays of their own.
    """

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    outputs: tuple[torch.Tensor, ...]
    expected: Callable[[], tuple[torch.Tensor, ...]]
    peers: dict[str, Job]
    bound: float = 0.0
    clear: Job = field(default=lambda: None)

    def job(self) -> Job:
        """Our launch, checked once. Raises ValueError where the result is wrong."""

        def launch() -> None:
            ct.launch(0, self.grid, self.kernel, self.arguments)

        self.clear()
        with on("cpu"):
            launch()
        for position, (found, right) in enumerate(zip(self.outputs, self.expected(), strict=True)):
            off = (found.double() - right.double()).abs().max().item()
            if not off <= self.bound * right.double().abs().max().item():
                raise ValueError(f"{self.name}: output {position} is off by {off:g}")
        return launch


def compiled(function: Callable[..., object], *tensors: torch.Tensor) -> Job:
    """A function of tensors by ``torch.compile``, which the first call compiles."""
    made: list[Callable[..., object]] = []

    def job() -> object:
        if not made:
            os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
            torch._dynamo.reset()  # else what was compiled for other rows counts as recompiling
            made.append(torch.compile(function))
        return made[0](*tensors)

    return job


def numba() -> Any:
    """numba, where it is installed; else None."""
    try:
        return import_module("numba")
    except ImportError:
        return None


def by_numba(make: Callable[[Any], Job]) -> dict[str, Job]:
    """A peer of numba, where it is installed; ``make`` gets numba and returns a job."""
    return {} if (nb := numba()) is None else {"numba": make(nb)}


def normal(*dims: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed numbers, the same each time."""
    made = torch.randn(*dims, generator=torch.Generator().manual_seed(sum(dims)))
    return made.to(dtype)


def several(many: int, *dims: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Different arrays of normally distributed numbers of the same shape."""
    return list(normal(many, *dims).to(dtype).unbind(0))


def uniform(*dims: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers from 0 to 1, the same each time."""
    generator = torch.Generator().manual_seed(seed + sum(dims))
    return torch.rand(*dims, generator=generator, dtype=torch.float64).to(dtype)


def integers(high: int, *dims: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Integers from 0 up to ``high``, the same each time."""
    generator = torch.Generator().manual_seed(high)
    return torch.randint(high, dims, generator=generator).to(dtype)


def next_power(number: int) -> int:
    """The least power of two that is not below it."""
    return 1 << (number - 1).bit_length()


def array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The same memory for NumPy."""
    return tensor.numpy()


#: Errors allowed, relative to the largest expected magnitude.
ERROR = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float64: 1e-14}


def kind(dtype: torch.dtype) -> str:
    """The name of an element type."""
    return str(dtype).removeprefix("torch.")


def beside_torch(
    name: str,
    kernel: Any,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    theirs: Callable[..., Any],
    *tensors: torch.Tensor,
    outputs: int = 1,
    bound: float = 0.0,
    clear: Job | None = None,
    more: dict[str, Job] | None = None,
    compiles: bool = True,
) -> Row:
    """A row beside a function of tensors, which returns what is expected: one tensor, or a tuple of them.

    The kernel's last tensors among ``arguments``, ``outputs`` of them, are its results. With a ``bound`` the
    function is asked in f64 what they must be, since it may be less exact than that. ``more`` are other
    peers; ``compiles`` is false where ``torch.compile`` does not take the function.
    """
    held = tuple(each for each in arguments if isinstance(each, torch.Tensor))
    given = [each.clone() for each in tensors]
    exact = [each.double() if bound and each.is_floating_point() else each for each in given]

    def expected() -> tuple[torch.Tensor, ...]:
        found = theirs(*(each.clone() for each in exact))
        return found if isinstance(found, tuple) else (found,)

    peers: dict[str, Job] = {"torch": lambda: theirs(*given)}
    if compiles:
        peers["torch.compile"] = compiled(theirs, *given)
    peers |= more or {}
    clear = clear or (lambda: None)
    return Row(name, kernel, grid, arguments, held[-outputs:], expected, peers, bound, clear)
