"""Linear algebra over GF(2) on integers: bit i is coordinate i, and ``^`` is addition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def reduced(vector: int, echelon: Iterable[int]) -> int:
    """Reduce a vector modulo a space, given by a basis with distinct leading bits, descending."""
    for row in echelon:
        vector = min(vector, vector ^ row)
    return vector


class Space:
    """The span of the added vectors."""

    def __init__(self, vectors: Iterable[int] = ()):
        self._echelon: list[int] = []
        for vector in vectors:
            self.add(vector)

    def add(self, vector: int) -> bool:
        """Add a vector; returns False if the space already contains it."""
        rest = reduced(vector, self._echelon)
        if rest:
            self._echelon.append(rest)
            self._echelon.sort(reverse=True)
        return bool(rest)

    def __contains__(self, vector: int) -> bool:
        return not reduced(vector, self._echelon)

    def __len__(self) -> int:
        """The dimension."""
        return len(self._echelon)


def independent(vectors: Iterable[int]) -> list[int]:
    """The vectors that are independent of those before them."""
    space = Space()
    return [vector for vector in vectors if space.add(vector)]


def solve(basis: Sequence[int], vector: int) -> int | None:
    """The subset of ``basis`` that sums to the vector, as a mask of positions; None if there is none.

    Of dependent vectors the first ones are used.
    """
    rows: list[tuple[int, int]] = []
    for position, member in enumerate(basis):
        value, mask = member, 1 << position
        for row, used in rows:
            if value ^ row < value:
                value, mask = value ^ row, mask ^ used
        if value:
            rows.append((value, mask))
            rows.sort(reverse=True)
    found = 0
    for row, used in rows:
        if vector ^ row < vector:
            vector, found = vector ^ row, found ^ used
    return None if vector else found


def solve_all(basis: Sequence[int], vectors: Sequence[int]) -> tuple[int, ...] | None:
    """What ``solve`` gives for each sum of ``vectors``, in the order of their numbers; None if a sum has no solution."""
    solutions: list[int] = []
    for vector in vectors:
        solution = solve(basis, vector)
        if solution is None:
            return None
        solutions.append(solution)
    return sums(solutions)


def intersection(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """A basis of the intersection of the spans of two lists of independent vectors."""
    rows: list[tuple[int, int]] = []
    common: list[int] = []
    for vector in one:
        rows.append((vector, vector))
    space: list[tuple[int, int]] = []

    def insert(value: int, origin: int) -> int | None:
        """Insert a vector; if it is dependent, returns the part of the dependency in ``one``."""
        for row, source in space:
            if value ^ row < value:
                value, origin = value ^ row, origin ^ source
        if not value:
            return origin
        space.append((value, origin))
        space.sort(reverse=True)
        return None

    for value, origin in rows:
        insert(value, origin)
    for vector in other:
        found = insert(vector, 0)
        if found:
            common.append(found)
    return common


def sums(vectors: Sequence[int]) -> tuple[int, ...]:
    """All sums of the vectors: that at place n is of those at the set bits of n."""
    found = [0]
    for vector in vectors:
        found += [each ^ vector for each in found]
    return tuple(found)


def apply(basis: Sequence[int], number: int) -> int:
    """The sum of the vectors at the set bits of ``number``."""
    found = 0
    for position, vector in enumerate(basis):
        if number >> position & 1:
            found ^= vector
    return found
