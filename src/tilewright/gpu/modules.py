"""A cache of code loaded onto a GPU: each kernel once, up to a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewright.gpu.driver_calls import Driver

#: The number of unused modules that stay loaded.
DEFAULT_LIMIT = 128


@dataclass(slots=True, eq=False)
class LoadedKernel:
    """A kernel on a GPU: the driver's handles, and the attributes that were set."""

    module: Any
    function: Any
    users: int = 0
    _set: dict[str, int] = field(default_factory=dict[str, int])
    _asked: dict[str, int] = field(default_factory=dict[str, int])

    def set(self, driver: Driver, attribute: str, value: int, kernel: str) -> None:
        """Set ``CU_FUNC_ATTRIBUTE_<attribute>``, unless it is already at least ``value``. Raises ``TileIRError`` as
        ``Driver.call``.
        """
        if self._set.get(attribute, 0) < value:
            kind = getattr(driver.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
            driver.call("cuFuncSetAttribute", self.function, kind, value, kernel=kernel)
            self._set[attribute] = value

    def attribute(self, driver: Driver, attribute: str) -> int:
        """``CU_FUNC_ATTRIBUTE_<attribute>``, cached as it does not change."""
        found = self._asked.get(attribute)
        if found is None:
            kind = getattr(driver.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
            found = int(driver.call("cuFuncGetAttribute", kind, self.function))
            self._asked[attribute] = found
        return found


class ModuleCache:
    """The modules loaded in a context, by kernel; the least recently used is evicted first.

    Thread-safe. Modules in use stay loaded even beyond ``limit``.
    """

    def __init__(self, driver: Driver, limit: int = DEFAULT_LIMIT) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._loaded: OrderedDict[object, LoadedKernel] = OrderedDict()
        self.limit = limit

    def __len__(self) -> int:
        return len(self._loaded)

    @contextmanager
    def using(self, key: object, image: Callable[[], bytes], name: str) -> Iterator[LoadedKernel]:
        """The kernel, which stays loaded within the context; ``image`` is called if it is not loaded yet.

        Raises ``TileIRError`` as ``Driver.call``, and what ``image`` raises.
        """
        with self._lock:
            known = key in self._loaded
        # Making an image may take seconds, so the lock is not held.
        made = None if known else image()
        with self._lock:
            found = self._loaded.get(key)
            if found is None:
                found = self._load(image() if made is None else made, name)
                self._loaded[key] = found
            self._loaded.move_to_end(key)
            found.users += 1
        try:
            yield found
        finally:
            with self._lock:
                found.users -= 1
                self._unload_beyond(self.limit)

    def clear(self) -> None:
        """Unload unused modules. The context must be current in the thread."""
        with self._lock:
            self._unload_beyond(0)

    def _load(self, image: bytes, name: str) -> LoadedKernel:
        module = self._driver.call("cuModuleLoadData", image, kernel=name)
        try:
            function = self._driver.call("cuModuleGetFunction", module, name.encode(), kernel=name)
        except BaseException:
            self._driver.release("cuModuleUnload", module)
            raise
        return LoadedKernel(module, function)

    def _unload_beyond(self, limit: int) -> None:
        for key in [key for key, each in self._loaded.items() if not each.users]:
            if len(self._loaded) <= limit:
                return
            self._driver.release("cuModuleUnload", self._loaded.pop(key).module)
