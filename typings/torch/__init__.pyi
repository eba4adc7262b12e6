"""What Tilewright uses of torch, loosely typed: torch is optional, and too large to install for a type check.

pyright looks here first, so that it finds the same with torch and without.
"""

from typing import Any

class Tensor(Any): ...
class UntypedStorage(Any): ...

class device(Any):
    type: str
    index: int | None
    def __init__(self, type: str | int | device, index: int | None = None) -> None: ...

def __getattr__(name: str) -> Any: ...
