"""The first launch of a process on the CPU machine: ``python -m benchmarks.first_launch FILE {operation,bytes,path}``.

Prints one line of JSON with seconds of processor time since the process began: ``numpy`` when NumPy has been imported,
``launched`` when one tile block of a vector addition has run.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_NUMPY = time.process_time()

import tilewright  # noqa: E402  (behind the time of NumPy)

_LENGTH = 128


def main() -> None:
    file, kind = sys.argv[1:]
    source: Any = file if kind == "path" else Path(file).read_bytes()
    if kind == "operation":
        source = tilewright.read(source)
    x, y, out = (np.ones(_LENGTH, np.float32) for _ in range(3))
    tilewright.load(source, "cpu").launch("vector_add", 1, (x, y, out, _LENGTH))
    print(json.dumps({"numpy": _NUMPY, "launched": time.process_time()}))
    assert (out == 2).all()


if __name__ == "__main__":
    main()
