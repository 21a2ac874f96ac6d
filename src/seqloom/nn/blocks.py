"""The Transformer's two blocks: attention and feed-forward, each around a normalised residual."""

from __future__ import annotations

from torch import Tensor, nn

from seqloom.nn.attention import CrossAttention, KeysValues, SelfAttention
from seqloom.nn.dropout import Dropout


class FeedForward(nn.Module):
    """W2 relu(W1 x + b1) + b2, at every position alone."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(self.expand(x).relu()))


class EncoderBlock(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x)."""

    def __init__(self, width: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = FeedForward(width, ffn, dropout)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask))
        return x + self.dropout(self.ffn(self.ffn_norm(x)))


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the source, feed-forward, each added to its input."""

    def __init__(self, width: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.cross_norm = nn.LayerNorm(width)
        self.cross = CrossAttention(width, heads)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = FeedForward(width, ffn, dropout)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        """(B, T, D). Padding stands at the end of a target, so the causal mask hides it from all before."""
        x = x + self.dropout(self.attention(self.attention_norm(x), causal=True))
        x = x + self.dropout(self.cross(self.cross_norm(x), self.cross.remember(source), source_mask))
        return x + self.dropout(self.ffn(self.ffn_norm(x)))

    def step(
        self, x: Tensor, past: KeysValues | None, memory: KeysValues, source_mask: Tensor
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One position of every row: output (R, 1, D), the grown cache, cross weights (R, H, S)."""
        attended, past = self.attention.step(self.attention_norm(x), past)
        x = x + attended
        crossed, weights = self.cross.step(self.cross_norm(x), memory, source_mask)
        x = x + crossed
        return x + self.ffn(self.ffn_norm(x)), past, weights
