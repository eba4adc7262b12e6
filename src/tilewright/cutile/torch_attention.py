"""torch's attention over sequences of different lengths (``torch.nn.attention.varlen``), of which it has no kernel for the CPU.

What a GPU computes by flash attention is computed by its definition, in float32, one sequence after the other. Sequences stand
behind one another in tensors of (tokens, heads, elements), or are rows of (batch, tokens, heads, elements) where no
positions are given; both ends of a query and its keys are aligned at the last token, as the kernels have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Tensor = torch.Tensor
_KINDS = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class _Window:
    """Which keys a query sees, and how scores are scaled."""

    scale: float
    left: int
    right: int

    @classmethod
    def of(
        cls,
        query: Tensor,
        is_causal: bool,
        scale: float | None,
        left: int | None,
        right: int | None,
    ) -> _Window:
        found = query.shape[-1] ** -0.5 if scale is None else scale
        sides = [-1 if side is None else side for side in (left, right)]
        return cls(found, sides[0], 0 if is_causal else sides[1])

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Of (heads, queries, elements) and (heads, keys, elements): (heads, queries, keys), -inf where a key is not seen."""
        made = query @ key.mT * self.scale
        queries, keys = made.shape[-2:]
        distance = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
        if self.left >= 0:
            made = made.masked_fill(distance < -self.left, -math.inf)
        if self.right >= 0:
            made = made.masked_fill(distance > self.right, -math.inf)
        return made


@dataclass(frozen=True)
class _Sequences:
    """Where the tokens of each sequence stand."""

    query: Tensor
    key: Tensor
    ends: Tensor | None
    key_ends: Tensor | None
    used: Tensor | None = None
    blocks: Tensor | None = None

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Of each sequence its number, its queries and its keys: what selects them, as (tokens, heads, elements)."""
        ends = None if self.ends is None else self.ends.tolist()
        count = len(self.query) if ends is None else len(ends) - 1
        for number in range(count):
            queries = number if ends is None else slice(ends[number], ends[number + 1])
            yield number, queries, self._keys(number)

    def _keys(self, number: int) -> Any:
        used = None if self.used is None else int(self.used[number])
        if self.blocks is not None:
            size = self.key.shape[1]
            token = torch.arange(used or 0)
            return self.blocks[number].long()[token // size], token % size
        if self.key_ends is None:
            return (number, slice(used))
        first, end = self.key_ends[number : number + 2].tolist()
        return slice(first, end if used is None else first + used)


def _heads_first(tokens: Tensor, heads: int | None = None) -> Tensor:
    """(tokens, heads, elements) as (heads, tokens, elements) in float32, each head as often as queries share it."""
    made = tokens.float().transpose(0, 1)
    return made if heads is None else made.repeat_interleave(heads // len(made), 0)


def _shared(grad: Tensor, heads: int) -> Tensor:
    """(query heads, tokens, elements) summed for each of the heads that queries share, tokens first."""
    return grad.unflatten(0, (heads, -1)).sum(1).transpose(0, 1)


def _forward_into(
    out: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any
) -> Tensor:
    """The attention in ``out``; the logarithms of the sums of each row, (heads, tokens) or (batch, heads, tokens)."""
    ends, key_ends, _, _, dropout, is_causal, *_ = rest
    _check(query, key, value)
    if dropout or named.get("alibi_slopes") is not None:
        raise NotImplementedError(
            "Tilewright computes flash attention on the device cuda without dropout and without alibi slopes"
        )
    sides = named.get("window_size_left"), named.get("window_size_right")
    window = _Window.of(query, is_causal, named.get("scale"), *sides)
    sequences = _Sequences(
        query, key, ends, key_ends, named.get("seqused_k"), named.get("block_table")
    )
    shape = (*query.shape[:-3], query.shape[-2], query.shape[-3])
    sums = torch.empty(shape, dtype=torch.float32, device=query.device)
    for number, queries, keys in sequences:
        heads = query.shape[-2]
        scores = window.scores(_heads_first(query[queries]), _heads_first(key[keys], heads))
        # Rows that see no key give 0, and infinity for their sum.
        logarithm = scores.logsumexp(-1)
        logarithm = logarithm.masked_fill(logarithm == -math.inf, math.inf)
        weights = (scores - logarithm[..., None]).exp()
        out[queries] = (weights @ _heads_first(value[keys], heads)).transpose(0, 1).to(out.dtype)
        if ends is None:
            sums[number] = logarithm
        else:
            sums[:, queries] = logarithm
    return sums


def _check(*tensors: Tensor) -> None:
    if any(tensor.dtype not in _KINDS for tensor in tensors):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")


def _forward(query: Tensor, *rest: Any, **named: Any) -> tuple[Tensor, ...]:
    out = torch.empty_like(query)
    sums = _forward_into(out, query, *rest, **named)
    state = torch.zeros(2, dtype=torch.uint64, device=query.device)
    unused = torch.zeros((), dtype=torch.uint64, device=query.device)
    return out, sums, state, unused, torch.empty(0, dtype=query.dtype, device=query.device)


def _backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    *rest: Any,
    **named: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    ends, key_ends, _, _, _, is_causal, *_ = rest
    sides = named.get("window_size_left"), named.get("window_size_right")
    window = _Window.of(query, is_causal, named.get("scale"), *sides)
    grads = [torch.zeros_like(each) for each in (query, key, value)]
    heads, shared = query.shape[-2], key.shape[-2]
    for number, queries, keys in _Sequences(query, key, ends, key_ends):
        q, do, o = (_heads_first(each[queries]) for each in (query, grad_out, out))
        k, v = (_heads_first(each[keys], heads) for each in (key, value))
        logarithm = logsumexp[number] if ends is None else logsumexp[:, queries]
        weights = (window.scores(q, k) - logarithm[..., None]).exp()
        of_scores = weights * (do @ v.mT - (do * o).sum(-1, keepdim=True)) * window.scale
        grads[0][queries] = (of_scores @ k).transpose(0, 1).to(query.dtype)
        grads[1][keys] = _shared(of_scores.mT @ q, shared).to(key.dtype)
        grads[2][keys] = _shared(weights.mT @ do, shared).to(value.dtype)
    return grads[0], grads[1], grads[2]


KERNELS: Mapping[str, Callable[..., Any]] = {
    "_flash_attention_forward": _forward,
    "_flash_attention_forward_no_dropout_inplace": _forward_into,
    "_flash_attention_backward": _backward,
}
"""What computes operations of torch, by name."""
