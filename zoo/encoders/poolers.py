"""Poolings with weights that no library has, for networks of libraries."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FirstQuery(nn.Module):
    """CoCa's attentional pooling, of the one query whose answer is compared with texts; the norm of the answer too.

    OpenCLIP trains further queries of the same pooling for its captioner; queries do not see each other.
    """

    def __init__(self, width: int, dim: int, *, n_heads: int, has_bias: bool = True) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Parameter(torch.randn(1, dim))
        self.norm_q, self.norm_kv, self.norm = nn.LayerNorm(dim), nn.LayerNorm(width), nn.LayerNorm(dim)
        self.q, self.proj = nn.Linear(dim, dim, bias=has_bias), nn.Linear(dim, dim, bias=has_bias)
        self.k, self.v = nn.Linear(width, dim, bias=has_bias), nn.Linear(width, dim, bias=has_bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """(n, tokens, width) -> (n, dim)."""
        tokens = self.norm_kv(tokens)
        query = self.q(self.norm_q(self.query)).expand(len(tokens), 1, -1)
        q, k, v = (self._heads(each) for each in (query, self.k(tokens), self.v(tokens)))
        answer = nn.functional.scaled_dot_product_attention(q, k, v)  # (n, heads, 1, dim / heads)
        return self.norm(self.proj(answer.transpose(1, 2).flatten(1)))  # type: ignore[no-any-return]

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # type: ignore[no-untyped-call, no-any-return]
