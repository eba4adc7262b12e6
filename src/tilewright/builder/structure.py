"""``with k.for_(...)``, ``with k.loop_(...)`` and ``with k.if_(...)``: structure with named values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.builder.errors import fail
from tilewright.builder.values import Value
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import is_terminator

if TYPE_CHECKING:
    from tilewright.builder.kernel import Body, Builder


class _Named:
    """Named values, read and assigned as attributes."""

    _what: str
    _values: dict[str, Any]

    def __getattr__(self, name: str) -> Value:
        values = self.__dict__.get("_values", {})
        if name.startswith("_") or name not in values:
            known = ", ".join(values) or "no values"
            raise AttributeError(f"this {type(self)._what} has no value {name!r}: {known}")
        return self._read(name)

    def _read(self, name: str) -> Value:
        return self._values[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]


class Loop(_Named, ABC):
    """The base of ``for`` and ``loop``.

    A loop-carried value has a name, given with its start value. Inside, ``loop.name`` is its value in
    this iteration, and assigning to it sets its value in the next one; after the loop it is the result.
    Values given as a list have no names: unpacking the loop yields them, and ``k.continue_([...])``
    passes the next ones.
    """

    def __init__(self, k: Builder, carried: Sequence[Any], values: Mapping[str, Any]) -> None:
        self._k = k
        listed = list(carried) if isinstance(carried, Sequence) else [carried]
        if listed and values:
            fail(self._what, "carries values either by name or as a list")
        self._names = list(values)
        self._start = [k.value_of(self._what, v) for v in listed]
        self._start += [k.value_of(f"{self._what}: {name}", v) for name, v in values.items()]
        self._values: dict[str, Any] = {}
        self._block: Block | None = None
        self._entered: AbstractContextManager[None] | None = None
        self._results: tuple[Value, ...] | None = None
        self._by_name = True

    @abstractmethod
    def _arguments(self) -> list[Attribute]:
        """Return the types of the block's arguments before the loop-carried values."""

    @abstractmethod
    def _operation(self, region: Region) -> Operation: ...

    def _open(self) -> Block:
        types = [*self._arguments(), *(v.type for v in self._start)]
        self._block = Block(arg_types=types)
        for argument, name in zip(self._carried_arguments(), self._names, strict=False):
            argument.name_hint = name
        return self._block

    def _carried_arguments(self) -> Sequence[SSAValue]:
        assert self._block is not None
        return self._block.args[len(self._block.args) - len(self._start) :]

    def __enter__(self) -> Any:
        if self._block is not None:
            fail(self._what, "is entered a second time")
        block = self._open()
        arguments = (Value(self._k, a) for a in self._carried_arguments())
        self._values = dict(zip(self._names, arguments, strict=False))
        self._entered = self._k.inside(block, self)
        self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._entered is not None and self._block is not None
        try:
            if kind is None and not is_terminator(self._block.last_op):
                self._k.continue_()
        finally:
            self._entered.__exit__(None, None, None)
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        assert self._block is not None
        made = self._k.append(self._operation(Region(self._block)))
        results = (
            made if isinstance(made, tuple) else () if isinstance(made, Operation) else (made,)
        )
        self._results = results
        self._values = dict(zip(self._names, results, strict=False))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if name not in self._values:
            fail(self._what, f"carries no value named {name!r}; give it a start: {name}=...")
        if self._results is not None:
            fail(self._what, f"has ended: {name!r} is a result of it now")
        if self._k.block is not self._block:
            fail(
                self._what,
                f"{name!r} is assigned inside of another structure, whose values do not leave it",
                f"give the value out by name: `with k.if_(condition, {name}=loop.{name}) as branch`",
            )
        start = self._start[self._names.index(name)]
        given = self._k.value_of(self._what, value, start.type)
        if given.type != start.type:
            fail(
                self._what,
                f"{name!r} is {format_type(start.type)} and cannot become "
                f"{format_type(given.type)}",
            )
        self._values[name] = Value(self._k, given)

    def current(self, what: str) -> list[Any]:
        """Return the current values of the names.

        Raises ``BuilderError``, about an operation ``what``, if the loop carries values without names.
        """
        if not self._by_name:
            return []
        if self._start and not self._names:
            fail(what, f"this {self._what} carries values without names; list the next ones")
        return [self._values[name] for name in self._names]

    def next_values(self, values: Sequence[Any]) -> list[SSAValue]:
        """Return the checked operands of a ``continue``; numbers become constants.

        Raises ``BuilderError`` for another number of values than the loop carries, and for other types.
        """
        return self._matched("continue", values, [v.type for v in self._start])

    def break_values(self, values: Sequence[Any]) -> list[SSAValue]:
        """Return the checked operands of a ``break``.

        Raises ``BuilderError``: only a ``loop`` has an early exit.
        """
        fail(
            "break",
            f"a {self._what} has no early exit",
            "a `loop_` has: count in a value that it carries",
        )

    def _matched(
        self, what: str, values: Sequence[Any], types: Sequence[Attribute]
    ) -> list[SSAValue]:
        if len(values) != len(types):
            wanted = ", ".join(map(format_type, types)) or "nothing"
            given = ", ".join(str(v) for v in values) or "nothing"
            fail(what, f"gives {given:.80}, this {self._what} takes {wanted}")
        found = [self._k.value_of(what, v, ty) for v, ty in zip(values, types, strict=True)]
        for number, (value, ty) in enumerate(zip(found, types, strict=True)):
            if value.type != ty:
                fail(
                    what,
                    f"value {number} is {format_type(ty)} in this {self._what} and cannot become "
                    f"{format_type(value.type)}",
                )
        return found

    def __iter__(self) -> Iterator[Value]:
        if self._block is None:
            fail(self._what, "is unpacked inside of its own `with`")
        return (Value(self._k, argument) for argument in self._block.args)

    @property
    def results(self) -> tuple[Value, ...]:
        """The results, after the loop. Raises ``BuilderError`` inside of it."""
        if self._results is None:
            fail(self._what, "has no results before it has ended")
        return self._results

    def build_from(self, body: Body) -> tuple[Value, ...]:
        """Build the loop with a body built by a function. Returns the results."""
        from tilewright.dialects.cuda_tile.ops.control_flow import ContinueOp

        self._by_name = False
        self._k.fill(self._what, self._open(), body, ContinueOp, self)
        self._finish()
        return self.results


class ForLoop(Loop):
    """``with k.for_(0, n, 1, acc=start) as loop:`` — ``loop.index`` counts, ``loop.acc`` is carried.

    Bounds are scalar integers of one type; numbers take that of the others, or i32.
    """

    _what = "for"

    def __init__(
        self,
        k: Builder,
        bounds: Sequence[Any],
        carried: Sequence[Any],
        values: Mapping[str, Any],
        unsigned: bool,
    ) -> None:
        super().__init__(k, carried, values)
        known = [b.type for b in bounds if isinstance(b, Value | SSAValue)]
        counter = known[0] if known else T.scalar("i32")
        self._bounds = [k.value_of("for", bound, counter) for bound in bounds]
        self._unsigned = unsigned

    @property
    def index(self) -> Value:
        """The induction variable, from the lower bound up to, but excluding, the upper one.

        Raises ``BuilderError`` before the loop is entered.
        """
        if self._block is None:
            fail("for", "has no index outside of its body")
        return Value(self._k, self._block.args[0])

    def _arguments(self) -> list[Attribute]:
        return [self._bounds[0].type]

    def _operation(self, region: Region) -> Operation:
        from tilewright.dialects.cuda_tile.ops.control_flow import ForOp

        return ForOp.create(
            operands=[*self._bounds, *self._start],
            result_types=[v.type for v in self._start],
            regions=[region],
            properties={"unsignedCmp": UnitAttr()} if self._unsigned else {},
        )


class WhileLoop(Loop):
    """``with k.loop_(x=start) as loop:``, left by ``k.break_()`` inside an ``if_``.

    The results have the types of the operands of the breaks, by default the current values of the names.
    """

    _what = "loop"

    def __init__(
        self,
        k: Builder,
        carried: Sequence[Any],
        values: Mapping[str, Any],
        result_types: Sequence[Attribute] | None,
    ) -> None:
        super().__init__(k, carried, values)
        self._types = None if result_types is None else list(result_types)

    def _arguments(self) -> list[Attribute]:
        return []

    def break_values(self, values: Sequence[Any]) -> list[SSAValue]:
        if self._types is None:
            self._types = [self._k.value_of("break", v).type for v in values]
        return self._matched("break", values, self._types)

    def _operation(self, region: Region) -> Operation:
        from tilewright.dialects.cuda_tile.ops.control_flow import LoopOp

        return LoopOp.create(operands=self._start, result_types=self._types or [], regions=[region])


class IfBranches(_Named):
    """``with k.if_(condition, y=start) as branch:`` and ``with branch.else_():``

    ``branch.y = ...`` in a branch sets the value of ``y`` if that branch is taken; after both,
    ``branch.y`` is the result. A branch that does not assign it keeps the start value; without one, both
    must assign it. A branch may end in ``continue_``, ``break_`` or ``return_`` instead.
    """

    _what = "if"

    def __init__(self, k: Builder, condition: Any, values: Mapping[str, Any]) -> None:
        self._k = k
        self._condition = k.value_of("if", condition, T.scalar("i1"))
        self._start = {
            name: Value(k, k.value_of(f"if: {name}", value)) for name, value in values.items()
        }
        self._values: dict[str, Any] = dict(self._start)
        self._given: list[dict[str, Value]] = []
        self._blocks: list[Block] = []
        self._entered: AbstractContextManager[None] | None = None
        self._made: TileOp | None = None
        self._results: tuple[Value, ...] | None = None

    def __enter__(self) -> IfBranches:
        if len(self._blocks) > 1 or self._entered is not None:
            fail("if", "has its branches already")
        self._blocks.append(Block())
        self._given.append({})
        self._values = dict(self._start)
        self._entered = self._k.inside(self._blocks[-1])
        self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._entered is not None
        self._entered.__exit__(None, None, None)
        self._entered = None
        if kind is None:
            self._finish()
            self._k.ended(self)

    def else_(self) -> IfBranches:
        """The else branch, directly after the first.

        Raises ``BuilderError`` if it is not, or if there is one already.
        """
        if len(self._blocks) != 1 or self._entered is not None:
            fail("if", "an if_ has one else_, after the branch")
        if self._made is None or self._k.block.last_op is not self._made:
            fail("if", "else_ must directly follow the branch")
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        if self._entered is None or self._k.block is not self._blocks[-1]:
            fail("if", f"{name!r} is assigned outside of the branch itself")
        other = self._start.get(name)
        if other is None and len(self._given) > 1:
            other = self._given[0].get(name)
        given = self._k.value_of("if", value, None if other is None else other.type)
        if other is not None and given.type != other.type:
            fail(
                "if",
                f"{name!r} is {format_type(other.type)} and cannot become "
                f"{format_type(given.type)}",
            )
        self._given[-1][name] = self._values[name] = Value(self._k, given)

    def __getattr__(self, name: str) -> Value:
        given = self.__dict__.get("_given", ())
        if self.__dict__.get("_entered") is None and any(name in branch for branch in given):
            return self._read(name)
        return super().__getattr__(name)

    def _read(self, name: str) -> Value:
        if self._entered is None and self._made is not None and name not in self._yielded():
            fail("if", f"{name!r} is given in one branch only: give it a start value, or an else_")
        return self._values[name]

    def _yielded(self) -> list[str]:
        """Return the names for which every branch that does not exit has a value."""
        goes_on = [g for g, b in zip(self._given, self._blocks, strict=True) if self._goes_on(b)]
        names = list(dict.fromkeys([*self._start, *(n for g in goes_on for n in g)]))
        if len(self._blocks) == 1:
            return list(self._start)
        return [n for n in names if n in self._start or all(n in g for g in goes_on)]

    @staticmethod
    def _goes_on(block: Block) -> bool:
        last = block.last_op
        return not is_terminator(last) or (last is not None and last.name == "cuda_tile.yield")

    def _finish(self) -> None:
        """Create the operation; it is recreated once the else branch exists."""
        from tilewright.dialects.cuda_tile.ops.control_flow import IfOp

        if self._made is not None:
            self._made.detach()
            for region in self._made.regions:
                for block in list(region.blocks):
                    region.detach_block(block)
        names = self._yielded()
        blocks = list(self._blocks)
        given = list(self._given)
        if len(blocks) == 1 and names:
            blocks.append(Block())
            given.append({})
        types: list[Attribute] | None = None
        for block, values in zip(blocks, given, strict=True):
            if not self._goes_on(block):
                continue
            yielded = [values[name] if name in values else self._start[name] for name in names]
            types = [v.type for v in yielded]
            self._end(block, yielded)
        regions = [Region(blocks[0]), Region(blocks[1]) if len(blocks) > 1 else Region()]
        made = IfOp.create(operands=[self._condition], regions=regions, result_types=types or [])
        results = self._k.append(made)
        self._made = made
        if isinstance(results, Operation):
            self._results = ()
        else:
            self._results = results if isinstance(results, tuple) else (results,)
        if types is not None:
            self._values = {**self._values, **dict(zip(names, self._results, strict=True))}

    def _end(self, block: Block, values: Sequence[Value]) -> None:
        from tilewright.dialects.cuda_tile.ops.control_flow import YieldOp

        last = block.last_op
        if last is not None and is_terminator(last):
            block.erase_op(last)
        with self._k.inside(block):
            self._k.append(YieldOp.create(operands=[v.ssa for v in values]))

    @property
    def results(self) -> tuple[Value, ...]:
        """The results by position, in the order in which their names were first given."""
        return self._results or ()

    def build_from(self, then: Body, otherwise: Body | None) -> tuple[Value, ...]:
        """Build the ``if`` with branches built by functions. Returns the results."""
        from tilewright.dialects.cuda_tile.ops.control_flow import IfOp, YieldOp

        regions: list[Region] = []
        types: list[Attribute] = []
        for body in (then, otherwise):
            region = Region()
            if body is not None:
                block = Block()
                yielded = self._k.fill("if", block, body, YieldOp)
                region.add_block(block)
                if yielded is not None:
                    types = [v.type for v in yielded]
            regions.append(region)
        made = self._k.append(
            IfOp.create(operands=[self._condition], regions=regions, result_types=types)
        )
        if isinstance(made, Operation):
            return ()
        return made if isinstance(made, tuple) else (made,)


__all__ = ["ForLoop", "IfBranches", "Loop", "WhileLoop"]
