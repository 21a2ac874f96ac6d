"""Self-attention that continues a prefix, whose keys and values all hypotheses of a sentence share."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.nn.kv_cache import KVCache, append
from seqloom.nn.multihead import KeysValues, SelfAttention


class PrefixAttention(SelfAttention):
    """Self-attention over prefix and continuation: in one sequence in training, separately in decoding."""

    def sees(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return whether a query at position (R, 1) sees keys at positions (R, K): it sees all, by default."""
        return torch.ones_like(keys, dtype=torch.bool)

    def project_kv(self, x: Tensor) -> KeysValues:
        """Return keys (B, H, S, d_qk) and values (B, H, S, d_v) of a prefix (B, S, D)."""
        _, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        return k, v

    def step_after_prefix(
        self,
        x: Tensor,
        prefix: KeysValues,
        real: Tensor,
        past: KVCache | None,
        since: Tensor,
    ) -> tuple[Tensor, KVCache, Tensor]:
        """Compute one position per row: output (R, 1, D), extended cache, weights on the prefix.

        real (B, S) masks padding in the prefix; since (R, 1) is the number of positions after the prefix. The
        newest position is |prefix| + since. Its distance to a key after the prefix depends on `since` only, and
        position encodings in the scores need only distances.
        """
        rows = x.shape[0] // real.shape[0]
        at = since + real.sum(dim=1).repeat_interleave(rows).unsqueeze(1)
        q, k, v = self._project(x, at)
        past = append(past, k, v)
        keys, values = prefix
        prefix_scores = self._per_row(self.scores(self._per_sentence(q, rows), keys))  # (R, H, 1, S)
        hidden = -torch.inf if self.weights_kind == "softmax" else 0.0
        visible = real.repeat_interleave(rows, dim=0)
        positions = torch.arange(real.shape[1], device=x.device).expand_as(visible)
        visible = visible & self.sees(at, positions)
        prefix_scores = self._biased(prefix_scores, q, at).masked_fill(~visible[:, None, None, :], hidden)
        past_scores = self._biased(self.scores(q, past.keys), q, since)  # (R, H, 1, T)
        positions = at - since + torch.arange(past.length, device=x.device)
        past_scores = past_scores.masked_fill(~self.sees(at, positions)[:, None, None, :], hidden)
        weights = torch.cat((prefix_scores, past_scores), dim=-1)
        if self.weights_kind == "softmax":
            weights = weights.softmax(dim=-1)
        on_prefix, on_past = weights.split_with_sizes([prefix_scores.shape[-1], past_scores.shape[-1]], dim=-1)
        prefix_context = self._per_row(self._per_sentence(on_prefix, rows) @ values)
        context = self._add_position_values(prefix_context, on_prefix, at)
        context = context + self._add_position_values(on_past @ past.values, on_past, since)
        return self.output(self.join(context)), past, on_prefix[:, :, 0]

    def _biased(self, scores: Tensor, queries: Tensor, at: Tensor) -> Tensor:
        bias = self.positions.bias(queries, at, scores.shape[-1])
        return scores if bias is None else scores + bias

    def _per_sentence(self, x: Tensor, rows: int) -> Tensor:
        """Return (B, H, K, d) from (B K, H, 1, d): the rows of a sentence are queries to its prefix."""
        return x.reshape(-1, rows, *x.shape[1::2]).transpose(1, 2)

    def _per_row(self, x: Tensor) -> Tensor:
        """Return (B K, H, 1, d) from (B, H, K, d)."""
        return x.transpose(1, 2).flatten(0, 1).unsqueeze(2)
