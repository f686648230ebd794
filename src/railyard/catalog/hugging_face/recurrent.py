"""Recurrences by mechanism: the state of each, and its parameters as the published implementations create them."""

from __future__ import annotations

from railyard.catalog.block import Recurrent


def mamba2(hidden: int, *, heads: int, head_dim: int, groups: int, state: int, conv: int, conv_bias: bool) -> Recurrent:
    """Mamba-2 (arXiv 2405.21060): one projection to gate, input, B, C and step; a convolution; a gated norm.

    Args:
        hidden: Width of the residual.
        heads: Heads of the state.
        head_dim: Channels of a head.
        groups: Groups of heads that share B and C.
        state: Elements of the state of a channel.
        conv: Taps of the convolution.
        conv_bias: Whether it has a bias.
    """
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    weights = hidden * (inner + mixed + heads) + inner * hidden
    beside = mixed * (conv + conv_bias) + 3 * heads + inner
    return Recurrent(
        kind="mamba2",
        heads=heads,
        key_dim=state,
        value_dim=head_dim,
        conv=mixed * max(conv - 1, 0),
        weights=weights,
        parameters=weights + beside,
    )


def mamba(hidden: int, *, inner: int, state: int, conv: int, rank: int, conv_bias: bool, norms: bool) -> Recurrent:
    """Mamba (arXiv 2312.00752): a state for each channel; B, C and step from low-rank projections of the input.

    Args:
        hidden: Width of the residual.
        inner: Channels.
        state: Elements of the state of a channel.
        conv: Taps of the convolution.
        rank: Of the step's projection.
        conv_bias: Whether the convolution has a bias.
        norms: Whether B, C and step are normalised (Jamba).
    """
    weights = 2 * hidden * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
    beside = inner * (conv + conv_bias) + inner + inner * state + inner + (rank + 2 * state if norms else 0)
    return Recurrent(
        kind="mamba",
        heads=1,
        key_dim=state,
        value_dim=inner,
        conv=inner * max(conv - 1, 0),
        weights=weights,
        parameters=weights + beside,
    )


def gated_delta(hidden: int, *, key_heads: int, heads: int, key_dim: int, value_dim: int, conv: int) -> Recurrent:
    """Gated delta rule (arXiv 2412.06464) as Qwen3-Next has it: keys in fewer heads than values, an output gate.

    Args:
        hidden: Width of the residual.
        key_heads: Heads of queries and keys.
        heads: Heads of values and of the state.
        key_dim: Dimensions of a key.
        value_dim: Dimensions of a value.
        conv: Taps of the convolution.
    """
    keys, values = key_heads * key_dim, heads * value_dim
    weights = hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    mixed = 2 * keys + values
    return Recurrent(
        kind="gated-delta",
        heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        conv=mixed * max(conv - 1, 0),
        weights=weights,
        parameters=weights + mixed * conv + 2 * heads + value_dim,
    )


def kimi_delta(hidden: int, *, heads: int, head_dim: int, conv: int, full_gate: bool) -> Recurrent:
    """Kimi delta attention (arXiv 2510.26692): a decay for each channel, by low-rank projections; an output gate.

    Args:
        hidden: Width of the residual.
        heads: Heads.
        head_dim: Dimensions of keys and values.
        conv: Taps of each of the three convolutions.
        full_gate: Whether the output gate has a full projection.
    """
    inner = heads * head_dim
    low = hidden * head_dim + head_dim * inner
    weights = 4 * hidden * inner + low + (hidden * inner if full_gate else low) + hidden * heads
    return Recurrent(
        kind="kimi-delta",
        heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        conv=3 * inner * max(conv - 1, 0),
        weights=weights,
        parameters=weights + 3 * inner * conv + heads + inner + head_dim,
    )


def lightning(hidden: int, *, heads: int, head_dim: int) -> Recurrent:
    """Lightning attention (arXiv 2501.08313): linear attention with a fixed decay, an output gate and a norm."""
    inner = heads * head_dim
    weights = 5 * hidden * inner
    return Recurrent(
        kind="lightning", heads=heads, key_dim=head_dim, value_dim=head_dim, weights=weights, parameters=weights + inner
    )


def gated_unit(hidden: int, *, width: int, heads: int, conv: int) -> Recurrent:
    """Real-gated linear recurrent unit (Griffin, arXiv 2402.19427): two branches, gates that are block-diagonal."""
    each = width // max(heads, 1)
    gates = 2 * heads * each * each
    weights = 3 * hidden * width + gates
    beside = 2 * width + hidden + width * (conv + 1) + 2 * width + width
    return Recurrent(
        kind="rg-lru",
        heads=1,
        key_dim=1,
        value_dim=width,
        conv=width * max(conv - 1, 0),
        weights=weights,
        parameters=weights + beside,
    )


def short_convolution(hidden: int, *, taps: int, bias: bool) -> Recurrent:
    """A gated short convolution (LFM2): its state is what the taps reach back to."""
    weights = 4 * hidden * hidden
    return Recurrent(
        kind="short-convolution",
        heads=1,
        key_dim=0,
        value_dim=hidden,
        conv=hidden * max(taps - 1, 0),
        weights=weights,
        parameters=weights + hidden * taps + (5 * hidden if bias else 0),
    )


def weighted_keys(hidden: int, *, width: int) -> Recurrent:
    """RWKV-4 (arXiv 2305.13048): a numerator, a denominator and a maximum for each channel."""
    weights = 4 * hidden * width
    return Recurrent(
        kind="rwkv",
        heads=1,
        key_dim=3,
        value_dim=width,
        conv=2 * hidden,
        weights=weights,
        parameters=weights + 2 * width + 3 * hidden,
    )
