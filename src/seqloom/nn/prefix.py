"""Self-attention that goes on behind a prefix, whose keys and values all hypotheses of a sentence share."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.nn.kv_cache import KVCache, append
from seqloom.nn.multihead import KeysValues, SelfAttention


class PrefixAttention(SelfAttention):
    """While training, self-attention over prefix and continuation in one row; while decoding, in two parts."""

    def project_kv(self, x: Tensor) -> KeysValues:
        """Keys (B, H, S, d_qk) and values (B, H, S, d_v) of a prefix (B, S, D)."""
        _, k, v = self._project(x, torch.arange(x.shape[1], device=x.device))
        return k, v

    def step_behind(
        self,
        x: Tensor,
        prefix: KeysValues,
        real: Tensor,
        past: KVCache | None,
        since: Tensor,
    ) -> tuple[Tensor, KVCache, Tensor]:
        """The newest position alone: (R, 1, D), the keys and values since the prefix, the weights on it.

        real (B, S) tells the prefix from padding; since (R, 1) counts the positions behind the prefix. The
        newest stands at |prefix| + since; how far it is from a key behind the prefix, `since` alone tells,
        and that is all that positions in the scores go by.
        """
        rows = x.shape[0] // real.shape[0]
        at = since + real.sum(dim=1).repeat_interleave(rows).unsqueeze(1)
        q, k, v = self._project(x, at)
        past = append(past, k, v)
        keys, values = prefix
        before = self._per_row(self.scores(self._per_sentence(q, rows), keys))  # (R, H, 1, S)
        before = self._biased(before, q, at).masked_fill(
            ~real.repeat_interleave(rows, dim=0)[:, None, None, :], -torch.inf
        )
        behind = self._biased(self.scores(q, past.keys), q, since)  # (R, H, 1, T)
        weights = torch.cat((before, behind), dim=-1).softmax(dim=-1)
        on_prefix, on_past = weights.split_with_sizes([before.shape[-1], behind.shape[-1]], dim=-1)
        seen = self._per_row(self._per_sentence(on_prefix, rows) @ values)
        context = self._shifted(seen, on_prefix, at) + self._shifted(on_past @ past.values, on_past, since)
        return self.output(self.join(context)), past, on_prefix[:, :, 0]

    def _biased(self, scores: Tensor, queries: Tensor, at: Tensor) -> Tensor:
        bias = self.positions.bias(queries, at, scores.shape[-1])
        return scores if bias is None else scores + bias

    def _per_sentence(self, x: Tensor, rows: int) -> Tensor:
        """(B, H, K, d) from (B K, H, 1, d): the rows of a sentence are queries to its one prefix."""
        return x.reshape(-1, rows, *x.shape[1::2]).transpose(1, 2)

    def _per_row(self, x: Tensor) -> Tensor:
        """(B K, H, 1, d) from (B, H, K, d)."""
        return x.transpose(1, 2).flatten(0, 1).unsqueeze(2)
