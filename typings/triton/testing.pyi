from typing import Any

do_bench: Any

def __getattr__(name: str) -> Any: ...
