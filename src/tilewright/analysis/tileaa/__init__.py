"""Analyses of ``nv_tileaa`` functions, for passes, code generators and people.

Every fact holds in every run of the function without undefined behaviour.
"""

from tilewright.analysis.tileaa.agents import consumer_of, consumers_of, first_user, holders_of
from tilewright.analysis.tileaa.bounds import AxisBounds, Bounds, BulkCopies, BulkCopy
from tilewright.analysis.tileaa.choices import Choice, choice_of
from tilewright.analysis.tileaa.facts import Facts
from tilewright.analysis.tileaa.lifetimes import Lifetime, Lifetimes
from tilewright.analysis.tileaa.order import must_stay, synchronises
from tilewright.analysis.tileaa.patterns import AxisPattern, Pattern, Patterns
from tilewright.analysis.tileaa.provenance import Aliases, Provenance, Provenances, Root
from tilewright.analysis.tileaa.ranges import Range, Ranges
from tilewright.analysis.tileaa.tokens import Edge, TokenGraph, is_effect, is_token
from tilewright.analysis.tileaa.uniformity import Uniformities, Uniformity

__all__ = [
    "Aliases",
    "AxisBounds",
    "AxisPattern",
    "Bounds",
    "BulkCopies",
    "BulkCopy",
    "Choice",
    "Edge",
    "Facts",
    "Lifetime",
    "Lifetimes",
    "Pattern",
    "Patterns",
    "Provenance",
    "Provenances",
    "Range",
    "Ranges",
    "Root",
    "TokenGraph",
    "Uniformities",
    "Uniformity",
    "choice_of",
    "consumer_of",
    "consumers_of",
    "first_user",
    "holders_of",
    "is_effect",
    "is_token",
    "must_stay",
    "synchronises",
]
