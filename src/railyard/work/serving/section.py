"""The scenario's `workload.serving`: requests, the pools that answer them, and what counts as SLO attainment."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from railyard.kit.errors import InputError
from railyard.kit.schema.quantity import SPAN, Bounds, limits, more_than
from railyard.work.scenario.cluster import NetworkSection
from railyard.work.scenario.quantity import (
    SOME_RATE,
    SOME_TIME,
    Flag,
    Natural,
    Positive,
    Rate,
    Ratio,
    Size,
    Span,
    Text,
    Whole,
)
from railyard.work.scenario.section import ModelName, Section, WorkKey, files_of_model, tagged, works

Decimal = Annotated[float, Strict(), Bounds(above=0), Field(allow_inf_nan=False)]
Share = Annotated[Ratio, limits(0.0, 1.0)]
Precision = Literal["bf16", "fp16", "fp8", "fp4", "mxfp4"]
Width = Literal[4, 8, 16]
Source = Literal["disk", "storage", "peer"]
Nics = Literal["own", "rail", "all"]
Role = Literal["prefill", "decode", "both"]


_LATENCY = SPAN.within(
    "1 us", "365 d", usual=("1 ms", "10 min"), source="MLPerf Inference 5.1: 20 ms a token to 6 s until the first"
)


class LengthsSection(Section):
    """Lengths of prompts or answers, in tokens."""

    mean: Decimal = Field(description="Mean.", examples=[2048])
    p99: Decimal | None = Field(default=None, description="99th percentile, log-normal; all alike when left out.")


def _length(value: object) -> object:
    return {"mean": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Lengths = Annotated[LengthsSection, BeforeValidator(_length)]


class SyntheticSection(Section):
    """Requests drawn by the seed of the run."""

    arrivals: Literal["fixed", "poisson", "gamma", "weibull", "diurnal", "on-off"] = Field(
        default="poisson",
        description="Process: `gamma` and `weibull` come in bursts by `cv`, `diurnal` follows the day, `on-off` stops.",
    )
    rate: Decimal | None = Field(
        default=None, description="Requests a second; or `users`; or the `rate` of `requests`.", examples=[4]
    )
    users: Positive | None = Field(
        default=None,
        description="A closed loop in place of `rate`: so many start at once, each asks again when it is answered.",
        examples=[64],
    )
    cv: Decimal | None = Field(
        default=None, description="Standard deviation of the gaps over their mean; 1 when left out.", examples=[2]
    )
    input: Lengths = Field(description="Prompts: a length, or `{mean, p99}`.", examples=[2048])
    output: Lengths = Field(description="Answers: a length, or `{mean, p99}`.", examples=[256])
    count: Positive = Field(default=2000, description="Requests.")
    turns: Annotated[float, Strict(), limits(1, 1000)] = Field(
        default=1.0, description="Turns of a conversation, mean; each sends what was said before as a shared prefix."
    )
    think: Span | None = Field(
        default=None,
        description="From an answer to the next turn, mean, 30 s when left out; of `users` to the next request, 0 s.",
    )
    system: Natural = Field(default=0, description="Tokens of a system prompt.")
    system_prompts: Positive = Field(default=1, description="Different ones, each as likely as another.")

    @model_validator(mode="after")
    def _one_load(self) -> "SyntheticSection":
        if (self.rate is None) == (self.users is None):
            raise PydanticCustomError("load", "expected either `rate` or `users`")
        if self.users is not None and (self.turns > 1 or self.cv is not None or self.arrivals != "poisson"):
            raise PydanticCustomError("load", "`users` ask when they are answered: no `arrivals`, `cv` or `turns`")
        return self


class RequestsSection(Section):
    """The requests; either `trace` or `synthetic`."""

    trace: Text | None = Field(
        default=None, description="A trace file, relative to the scenario.", examples=["conversation_trace.jsonl"]
    )
    format: Text | None = Field(default=None, description="Format of the trace; recognised when left out.")
    sort: Flag = Field(default=False, description="Rows of the trace that are out of order are sorted, not refused.")
    drop_empty: Flag = Field(
        default=False, description="Rows of the trace without an answer, failed requests, are dropped, not refused."
    )
    synthetic: SyntheticSection | None = Field(default=None, description="Requests drawn by the seed.")
    first: Positive | None = Field(default=None, description="Only the first so many requests.")
    load: Decimal = Field(default=1.0, description="Factor on the rate; bursts stay as they are, relative to it.")
    rate: Decimal | None = Field(
        default=None, description="Requests a second, in place of `load` or of the `rate` of `synthetic`."
    )
    scale: Literal["compress", "superpose", "thin"] = Field(
        default="compress", description="How another load is made: faster time, more copies, fewer requests."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_rate(cls, values: Any) -> Any:
        """Drawn requests that state no load of their own come at the rate of the whole."""
        drawn, rate = (values.get(key) if isinstance(values, dict) else None for key in ("synthetic", "rate"))
        if (
            not isinstance(drawn, dict)
            or not isinstance(rate, int | float)
            or not rate > 0
            or {"rate", "users"} & set(drawn)
        ):
            return values
        return {**values, "synthetic": {**drawn, "rate": rate}}

    @model_validator(mode="after")
    def _one_source(self) -> "RequestsSection":
        if (self.trace is None) == (self.synthetic is None):
            raise PydanticCustomError("source", "either `trace` or `synthetic` says where the requests come from")
        if self.users and (self.rate is not None or self.load != 1.0):
            raise PydanticCustomError("load", "`users` ask when they are answered: no `rate` and no `load`")
        return self

    @property
    def users(self) -> int:
        """Users of a closed loop; 0 where requests come when they come."""
        return (self.synthetic and self.synthetic.users) or 0


class SpeculativeSection(Section):
    """Speculative decoding: how often guesses are right by `acceptance`, by `length`, or as measured of `method`."""

    tokens: Annotated[Whole, limits(1, 1024)] = Field(description="Tokens that a draft guesses ahead.")
    method: Text | None = Field(
        default=None,
        description="Drafter of the catalogue by its method: `mtp`, the model's own prediction layer, or `eagle-3`.",
        examples=["mtp"],
    )
    acceptance: Share | None = Field(
        default=None, description="Chance that a guessed token is accepted.", examples=["70 %"]
    )
    length: Annotated[float, Strict(), limits(1, 1025)] | None = Field(
        default=None,
        description="In its place: tokens of a pass in the mean, the model's own included (the acceptance length).",
        examples=[2.3],
    )
    draft: Span | None = Field(
        default=None,
        description="Time of one pass of the draft model over the batch; that of the drafter of `method`, or of the"
        " model's own layer for multi-token prediction when left out, and needed where there is none.",
    )

    @model_validator(mode="after")
    def _one_chance(self) -> "SpeculativeSection":
        said = (self.acceptance is not None) + (self.length is not None)
        if said > 1 or (not said and self.method is None):
            raise PydanticCustomError(
                "drafts", "expected either `acceptance` or `length`, or a `method` whose length is in the catalogue"
            )
        if self.length is not None and self.length > self.tokens + 1:
            raise PydanticCustomError(
                "drafts", "a pass yields at most its {tokens} guesses and a token of the model", {"tokens": self.tokens}
            )
        return self


class AutoscaleSection(Section):
    """Replicas come and go with the load; `replicas` of the pool is then the most there are."""

    least: Positive = Field(default=1, description="Replicas at least.")
    start: Positive = Field(default=1, description="Replicas at the start.")
    by: Literal["load", "queue"] = Field(
        default="load", description="Requests per replica as a share of `max_sequences`, or waiting ones per replica."
    )
    target: Decimal = Field(default=0.7, description="The target.")
    interval: Annotated[Span, SOME_TIME] = Field(default=15.0, description="From one look to the next.")
    cold_start: Span | None = Field(
        default=None,
        description="Until a new replica serves; its weights over `load_rate` when left out. With `load_from: storage`"
        " or `peer` until it begins to load; no time when left out.",
    )
    load_from: Source = Field(
        default="disk",
        description="Where its weights come from: its own `disk`; the cluster's `storage`; a `peer`, that is a replica"
        " of the pool that is up, else storage, else the disk. From storage and peers they are flows on links that"
        " others share.",
    )
    load_rate: Annotated[Rate, SOME_RATE] = Field(
        default=5e10, description="Of a disk: at which each accelerator loads its weights."
    )
    hold: Span = Field(default=300.0, description="How long a lower need must last before a replica goes.")


class AttentionSection(Section):
    """Accelerators of a replica that hold keys and values and compute attention only."""

    tp: Positive = Field(default=1, description="Tensor parallel ranks of each copy.")
    copies: Positive = Field(default=1, description="Copies of attention, each with its own sequences.")
    server: Text | None = Field(default=None, description="Server of these accelerators; the pool's when left out.")


class FfnSection(Section):
    """Accelerators of a replica that hold experts, or dense FFNs, and compute them only."""

    tp: Positive = Field(default=1, description="Tensor parallel ranks of each group of experts.")
    ep: Positive = Field(default=1, description="Groups over which experts are spread; of dense FFNs each has a copy.")
    server: Text | None = Field(default=None, description="Server of these accelerators; the pool's when left out.")

    @property
    def ranks(self) -> int:
        """Accelerators of a replica."""
        return self.tp * self.ep


class PoolSection(Section):
    """Replicas that are alike; what is left out is the engine's usual value."""

    replicas: Positive | None = Field(
        default=None, description="How many; as many as the remaining accelerators hold when left out."
    )
    server: Text | None = Field(
        default=None,
        description="Server of the catalogue that these replicas run on, with its accelerator and NICs, in place of"
        " the cluster's; it must have as many accelerators, unless the pool has a `network` of its own.",
    )
    network: NetworkSection | None = Field(
        default=None,
        description="A network of its own for as many servers as the replicas fill, next to the cluster's accelerators;"
        " `gateway` joins it to the others.",
    )
    tp: Positive = Field(default=1, description="Tensor parallel ranks.")
    pp: Positive = Field(default=1, description="Pipeline stages.")
    ep: Positive = Field(default=1, description="Ranks over which experts are spread.")
    dp_attention: Positive = Field(default=1, description="Copies of attention; experts are shared by all of them.")
    cp: Positive = Field(default=1, description="Ranks that share one long prompt.")
    attention: AttentionSection | None = Field(
        default=None, description="Of `decode`: attention on accelerators of its own; needs `ffn`, in place of degrees."
    )
    ffn: FfnSection | None = Field(default=None, description="The accelerators of experts and dense FFNs then.")
    micro_batches: Annotated[Whole, limits(1, 64)] = Field(
        default=3, description="Parts of a batch that alternate between `attention` and `ffn`."
    )
    precision: Precision | None = Field(default=None, description="Of the weights; the workload's when left out.")
    kv_bits: Width | None = Field(default=None, description="Of a cached element; the workload's when left out.")
    max_sequences: Positive = Field(default=256, description="Sequences in one iteration.")
    max_batched_tokens: Positive = Field(default=8192, description="Tokens in one iteration.")
    chunked: Flag = Field(default=True, description="Long prompts are cut into chunks.")
    ahead: Flag = Field(
        default=False,
        description="An iteration is put together when the one before it begins, as vLLM does since 0.14; with one"
        " pipeline stage.",
    )
    policy: Literal["decode-first", "prefill-first"] = Field(
        default="decode-first", description="What an iteration is filled with first."
    )
    preemption: Literal["recompute", "swap"] = Field(
        default="recompute", description="What becomes of a request that must make room."
    )
    block_tokens: Annotated[Whole, limits(1, 65_536)] = Field(default=16, description="Tokens of a block of the cache.")
    speculative: SpeculativeSection | None = Field(default=None, description="Speculative decoding.")
    autoscale: AutoscaleSection | None = Field(default=None, description="Replicas come and go with the load.")

    @model_validator(mode="after")
    def _sides(self) -> "PoolSection":
        if (self.attention is None) != (self.ffn is None):
            raise PydanticCustomError("sides", "`attention` and `ffn` go together: each computes what the other needs")
        # What a dump writes out at its default was not asked for.
        fields = type(self).model_fields
        given = {name for name in self.model_fields_set if getattr(self, name) != fields[name].default}
        if self.attention is None:
            if "micro_batches" in given:
                raise PydanticCustomError("sides", "`micro_batches` go between `attention` and `ffn`: write both")
            return self
        extra = [name for name in ("tp", "pp", "ep", "dp_attention", "cp") if name in given]
        if extra:
            raise PydanticCustomError(
                "sides",
                "`attention` and `ffn` each have their own degrees: `{name}` does not belong to the pool",
                {"name": extra[0]},
            )
        return self


class PoolsSection(Section):
    """Pools by what they do: `both`, or `prefill` and `decode`, or all three."""

    both: PoolSection | None = Field(default=None, description="Replicas that compute prompts and answers.")
    prefill: PoolSection | None = Field(default=None, description="Replicas that compute prompts only.")
    decode: PoolSection | None = Field(default=None, description="Replicas that compute answers only.")

    @property
    def given(self) -> dict[Role, PoolSection]:
        """Pools that are given, in the order in which they lie."""
        every: dict[Role, PoolSection | None] = {"prefill": self.prefill, "decode": self.decode, "both": self.both}
        return {role: pool for role, pool in every.items() if pool is not None}

    @model_validator(mode="after")
    def _complete(self) -> "PoolsSection":
        if (self.prefill is None) != (self.decode is None):
            raise PydanticCustomError("pools", "`prefill` and `decode` go together: one computes what the other needs")
        if self.both is None and self.prefill is None:
            raise PydanticCustomError("pools", "there is no pool: write `both`, or `prefill` and `decode`")
        for pool in (self.both, self.prefill):
            if pool is not None and pool.attention is not None:
                raise PydanticCustomError("pools", "`attention` and `ffn` compute answers: write them in `decode`")
        return self


class RouterSection(Section):
    """The rule that chooses the replica of a request."""

    kind: Literal["round-robin", "random", "least-loaded", "two-choices", "prefix", "session"] = Field(
        description="How the replica is chosen; `prefix` weighs cached tokens against load."
    )
    prefix_weight: Decimal = Field(default=1.0, description="Of `prefix`: cost of a token that is to be computed.")
    load_weight: Decimal = Field(default=64.0, description="Of `prefix`: cost of a request that the replica has.")
    move: Flag = Field(
        default=False,
        description="A prefix that another replica of the pool has is moved over the cluster's links where that is"
        " faster than to compute it; `prefix` counts it as the tokens that could be computed meanwhile.",
    )


Router = Annotated[RouterSection, tagged("kind")]


class ObjectiveSection(Section):
    """Limits of a request's latencies."""

    ttft: Annotated[Span, _LATENCY] | None = Field(
        default=None, description="Time to the first token.", examples=["2 s"]
    )
    tpot: Annotated[Span, _LATENCY] | None = Field(
        default=None, description="Mean time per output token.", examples=["50 ms"]
    )
    e2e: Annotated[Span, _LATENCY] | None = Field(default=None, description="Time to the last token.")
    attainment: Share = Field(default=0.9, description="Share of the requests that should meet them all.")


class StoreSection(Section):
    """Keys and values kept outside the replicas, for all of them."""

    capacity: Size = Field(description="Its size.", examples=["10 TiB"])
    place: Literal["apart", "storage", "memory_pool"] = Field(
        default="apart",
        description="`apart`: each replica reads at `rate`, and writing costs nothing; `storage` or `memory_pool`: on"
        " the cluster's, read and written over links that others share.",
    )
    rate: Annotated[Rate, SOME_RATE] | None = Field(
        default=None, description="At which each replica reads a store that is `apart`.", examples=["100 Gb/s"]
    )
    latency: Span = Field(default=1e-3, description="Of a read from a store that is `apart`.")

    @model_validator(mode="after")
    def _reached(self) -> "StoreSection":
        if (self.rate is None) == (self.place == "apart"):
            raise PydanticCustomError("rate", "a store that is `apart` has a `rate`, another one that of its links")
        return self


class CacheSection(Section):
    """Stores of keys and values."""

    prefix: Flag = Field(default=True, description="Prompts that begin alike share what was computed.")
    host: Size = Field(default=0, description="Host memory of a replica for what its accelerators evict.")
    host_rate: Annotated[Rate, SOME_RATE] = Field(default=4e11, description="Between a replica and its host, each way.")
    host_latency: Span = Field(default=1e-4, description="Of a read from there.")
    swap: Size = Field(default=0, description="Host memory of a replica for preempted requests.")
    store: StoreSection | None = Field(default=None, description="A store outside the replicas.")


class TransferSection(Section):
    """Keys and values on their way from prefill to decode."""

    overlap: Share = Field(
        default=0.0, description="Share of the bytes that may flow while the prompt is still computed, layer by layer."
    )
    nic: Nics = Field(
        default="rail",
        description="By which NICs: each accelerator's `own`; that of the peer on the target's `rail`; `all` of the"
        " server. Others' NICs are reached by scale-up, which counts.",
    )


class GatewaySection(Section):
    """What joins the networks of pools that have their own to the cluster's."""

    links: Annotated[Whole, limits(1, 1_000_000)] = Field(
        description="Links to each network; each takes one port of it.", examples=[8]
    )
    rate: Annotated[Rate, SOME_RATE] = Field(description="Of a link, each way.", examples=["400 Gb/s"])
    latency: Span = Field(default=5e-6, description="Of the gateway, one way.")


class OutageSection(Section):
    """A replica is away: a failure, or with `drain` an update that waits for its requests."""

    replica: Natural = Field(description="The replica, counted over all pools in the order prefill, decode, both.")
    start: Span = Field(description="From when on.")
    end: Span = Field(description="Until when; with `drain` it is away for as long once it is empty.")
    drain: Flag = Field(default=False, description="It finishes its requests first.")
    load_from: Source | None = Field(
        default=None,
        description="Where it loads its weights from once it is back, as in `autoscale`; part of `end` when left out.",
    )
    load_rate: Annotated[Rate, SOME_RATE] = Field(
        default=5e10, description="Of a disk: at which each accelerator loads its weights."
    )


class CapacitySection(Section):
    """Search for the largest load that meets the objective."""

    first: Positive = Field(
        default=1000,
        description="Requests of each trial; more, repeated where there are none, until they come for ten times as long"
        " as an answer takes.",
    )
    tolerance: Annotated[Ratio, more_than(0.0, 0.5)] = Field(default=0.05, description="Of the rate found.")


class ServingSection(Section):
    """A model that answers requests."""

    model: ModelName
    requests: RequestsSection = Field(description="What is asked, and when.")
    software: Text | None = Field(
        default=None, description="Serving engine: a dated profile by name; the newest for the accelerator."
    )
    profiles: Text | None = Field(
        default=None,
        description="A file of `railyard calibrate serving`, relative to the scenario: engines on your devices.",
        examples=["own.toml"],
    )
    precision: Precision = Field(default="bf16", description="Of the weights.")
    kv_bits: Width = Field(default=16, description="Of a cached element.")
    pools: PoolsSection = Field(description="Who answers.")
    router: Router = Field(
        default=RouterSection(kind="least-loaded"), description="Which replica a request goes to: a kind, or its keys."
    )
    decode_router: Router = Field(
        default=RouterSection(kind="least-loaded"), description="The same for replicas that decode."
    )
    slo: ObjectiveSection = Field(default_factory=ObjectiveSection, description="What counts as SLO attainment.")
    cache: CacheSection = Field(default_factory=CacheSection, description="Where keys and values are kept.")
    transfer: TransferSection = Field(default_factory=TransferSection, description="From prefill to decode.")
    gateway: GatewaySection | None = Field(
        default=None, description="Joins networks, where a pool has one of its own (`pools.*.network`)."
    )
    outages: tuple[OutageSection, ...] = Field(default=(), description="Replicas that are away.")
    capacity: CapacitySection | None = Field(
        default=None, description="Search for the largest load within the objective; takes about ten runs."
    )

    def check_users(self, users: int) -> None:
        """Refuses a closed loop that is asked for a capacity; the key is relative to `requests`."""
        if self.capacity is not None:
            raise InputError(
                "a capacity is a rate, and users ask when they are answered",
                key="synthetic.users",
                found=users,
                hint="vary `users` instead",
            )

    def files_in(self, folder: Path) -> dict[str, Path]:
        """Files of its model, its requests and the profiles of its software."""
        named = (self.requests.trace, self.profiles)
        return files_of_model(folder, self.model) | {name: folder / name for name in named if name is not None}

    def own_hardware(self) -> list[str]:
        """Servers and networks of pools, and servers of separate attention and FFNs."""
        pools = {f"pools.{role}": pool for role, pool in self.pools if pool is not None}
        sides = {f"{key}.{side}": getattr(pool, side) for key, pool in pools.items() for side in ("attention", "ffn")}
        return [
            f"workload.serving.{key}.{name}"
            for key, part in (pools | sides).items()
            for name in ("server", "network")
            if getattr(part, name, None) is not None
        ]


works.add("serving", WorkKey(ServingSection, "A model that answers requests.", order=10))
