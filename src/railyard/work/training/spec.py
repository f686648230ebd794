"""What a training job is: its model, its layout over ranks, its precision, and the software that runs it.

Plain frozen records. Nothing here computes time; `operators`, `memory` and `estimate` do.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from railyard.kit.schema.quantity import COUNTED, FLOP_PER_J, SHARE, SIZE, SOME_SHARE, bounded, limits, more_than
from railyard.work.training.offload import MASTER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Model
    from railyard.work.training.offload import Offload
    from railyard.work.training.sync.spec import Communication

#: Of a rate that the catalogue states; software may do better than what its figures were measured with.
FRACTION = more_than(0.0, 2.0)
JOULE = FLOP_PER_J.within(
    "0 FLOP/J",
    "10 PFLOP/J",
    usual=("0 FLOP/J", "20 TFLOP/J"),
    source="H100 to GB300 at their power limits: 1 TFLOP/J in 16 bits, 4 TFLOP/J in 4",
)

Schedule = Literal["1f1b", "interleaved", "zero-bubble", "dualpipe"]
Recompute = Literal["none", "selective", "full"]
Precision = Literal["bf16", "fp16", "fp8", "fp4"]
Access = Literal["sequential", "random"]
CachePolicy = Literal["none", "page-cache", "lru", "pinned", "shared"]
AttentionPrecision = Literal["bf16", "fp8"]
Attention = Literal["unfused", "flash1", "flash2", "flash3", "cudnn"]
Dispatcher = Literal["alltoall", "deepep", "hybridep"]
Scaling = Literal["tensor", "row"]
Targets = Literal["all", "attention"]

SCHEDULES: tuple[Schedule, ...] = ("1f1b", "interleaved", "zero-bubble", "dualpipe")
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp8", "fp4")
BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "fp4": 4}
ATTENTION_PRECISIONS: tuple[AttentionPrecision, ...] = ("bf16", "fp8")
DISPATCHERS: tuple[Dispatcher, ...] = ("alltoall", "deepep", "hybridep")
# Modules that Megatron-Core can compute again by themselves (`--recompute-modules`).
RECOMPUTE_MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
# Parts of a layer whose launches Megatron-Core can record as a CUDA graph; `layer` and `full` leave the host nothing.
GRAPH_SCOPES = ("attn", "mlp", "moe", "moe_router", "moe_preprocess", "layer", "full")


# Sizes of a layout that are always written out.
_WRITTEN = ("tp", "pp", "dp", "cp", "ep", "vp", "zero", "micro_batch")
# Switches of a layout: name, the value that is worth a word, and the word.
_SWITCHES = (
    ("overlap_tensor", True, "TP overlap"),
    ("overlap_expert", True, "EP overlap"),
    ("context_heads", True, "CP by heads"),
    ("sequence_parallel", False, "no sequence parallelism"),
    ("reshard", False, "parameters kept"),
    ("overlap_gradient", False, "no gradient overlap"),
    ("overlap_parameter", False, "no parameter overlap"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a training step is spread over ranks. Rank order: tp fastest, then cp, then dp, then pp.

    Attributes:
        global_batch: Sequences in one optimizer step, over all ranks.
        tp: Tensor-parallel ranks (heads and feed-forward columns are split).
        pp: Pipeline stages.
        dp: Data-parallel replicas. `ranks = tp * cp * dp * pp`.
        cp: Context-parallel ranks (each sequence is split).
        ep: Expert-parallel ranks, folded over the tp * cp * dp ranks of a stage.
        expert_tp: Tensor-parallel ranks inside one expert; `ep * expert_tp` divides `tp * cp * dp`.
        vp: Virtual stages per rank (1: not interleaved).
        zero: 0 all replicated; 1 optimizer state sharded; 2 gradients too; 3 parameters too (FSDP).
        sequence_parallel: Norms and residuals are split over the tp ranks (only meant with tp > 1).
        micro_batch: Sequences of one forward pass of one replica.
        schedule: Pipeline schedule. `interleaved` needs vp > 1.
        recompute: What the backward pass computes again: nothing, the attention core, or every layer.
        recompute_modules: Additional modules to recompute in the backward pass (`RECOMPUTE_MODULES`).
        recompute_share: Share of the layers that `full` recomputes (Megatron's recompute-num-layers).
        recompute_by_operator: `full` keeps attention and every second product (torchtitan's `selective` `op`); with it
            `recompute_share` says only what of a layer's activations is not kept.
        offload_layers: Layers, spread evenly over the pipeline, whose activations wait for backward in memory of the
            host (Megatron-Core's `cpu-offloading-num-layers`).
        fsdp_shard: Ranks that share one copy of the parameters under zero 3; 0 means all dp * cp ranks.
        reshard: Under zero 3: gathered parameters are dropped after forward and gathered again for backward.
        bucket_bytes: Gradient bytes per reduction, at least; 0 means as the software sizes its buckets.
        overlap_gradient: Gradient reductions run under the backward pass.
        overlap_parameter: Parameter gathers run under the next forward pass.
        overlap_tensor: Tensor-parallel collectives are pipelined with their GEMMs (asynchronous TP, user buffers).
        overlap_expert: Expert all-to-all runs under the computation of another micro-batch.
        context_heads: Context parallelism exchanges heads for tokens (all-to-all) instead of passing keys around.
    """

    global_batch: int
    tp: int = field(default=1, metadata=bounded(COUNTED))
    pp: int = field(default=1, metadata=bounded(COUNTED))
    dp: int = field(default=1, metadata=bounded(COUNTED))
    cp: int = field(default=1, metadata=bounded(COUNTED))
    ep: int = field(default=1, metadata=bounded(COUNTED))
    expert_tp: int = field(default=1, metadata=bounded(COUNTED))
    vp: int = field(default=1, metadata=bounded(limits(1, 1000)))
    zero: int = field(default=1, metadata=bounded(limits(0, 3)))
    sequence_parallel: bool = True
    micro_batch: int = field(default=1, metadata=bounded(COUNTED))
    schedule: Schedule = "1f1b"
    recompute: Recompute = "none"
    recompute_modules: tuple[str, ...] = ()
    recompute_share: float = field(default=1.0, metadata=bounded(SHARE))
    recompute_by_operator: bool = False
    offload_layers: int = field(default=0, metadata=bounded(limits(0, 10_000)))
    fsdp_shard: int = 0
    reshard: bool = True
    bucket_bytes: int = 0
    overlap_gradient: bool = True
    overlap_parameter: bool = True
    overlap_tensor: bool = False
    overlap_expert: bool = False
    context_heads: bool = False

    @property
    def ranks(self) -> int:
        """Accelerators that the layout takes."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def replica_batch(self) -> int:
        """Sequences that one data-parallel replica computes in a step."""
        return self.global_batch // self.dp

    @property
    def micro_batches(self) -> int:
        """Forward passes of one replica in a step (gradient accumulation)."""
        return self.replica_batch // self.micro_batch

    @property
    def edp(self) -> int:
        """Replicas of each expert."""
        return self.tp * self.cp * self.dp // (self.ep * self.expert_tp)

    @property
    def replicas(self) -> int:
        """Ranks that hold the same dense parameters."""
        return self.dp * self.cp

    @property
    def shard_ranks(self) -> int:
        """Ranks over which zero spreads its state: `fsdp_shard`, or all that hold the same parameters."""
        return min(self.fsdp_shard, self.replicas) if self.fsdp_shard else self.replicas

    def replace(self, **changes: Any) -> Layout:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def parallelism(self) -> dict[str, Any]:
        """The `parallelism` of a scenario that gives this layout again, every field that is not implied written out."""
        keys = {name: getattr(self, name) for name in _WRITTEN}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            implied = "interleaved" if one.name == "schedule" and self.vp > 1 else one.default
            if one.name not in {*_WRITTEN, "global_batch", "bucket_bytes"} and value != implied:
                keys[one.name] = list(value) if isinstance(value, tuple) else value
        return {**keys, "bucket": f"{self.bucket_bytes} B"} if self.bucket_bytes else keys

    def __str__(self) -> str:
        """The layout in words; two layouts with the same words are the same but for the global batch."""
        parts = [f"TP {self.tp}", f"PP {self.pp}", f"DP {self.dp}"]
        sizes = (("CP", self.cp), ("EP", self.ep), ("expert TP", self.expert_tp), ("VP", self.vp))
        parts += [f"{name} {size}" for name, size in sizes if size > 1]
        parts += [f"micro-batch {self.micro_batch}", f"ZeRO-{self.zero}"]
        return ", ".join([" ".join(parts), *self._ways()])

    def _ways(self) -> Iterator[str]:
        """How the layout differs from the usual one of its sizes."""
        if self.schedule != ("interleaved" if self.vp > 1 else "1f1b"):
            yield self.schedule
        if self.recompute != "none":
            by_operator = " by operator" if self.recompute_by_operator else ""
            share = f" of {self.recompute_share:.0%}" if self.recompute_share < 1 else ""
            yield f"{self.recompute} recompute{by_operator}{share}"
        if self.recompute_modules:
            yield f"recompute of {' and '.join(self.recompute_modules)}"
        if self.offload_layers:
            yield f"activations of {self.offload_layers} layers in host memory"
        if self.fsdp_shard:
            yield f"shards of {self.fsdp_shard}"
        if self.bucket_bytes:
            yield f"buckets of {self.bucket_bytes:,} B"
        yield from (words for name, unusual, words in _SWITCHES if getattr(self, name) is unusual)


@dataclass(frozen=True, slots=True)
class OwnRun:
    """What one measured run says.

    Attributes:
        pace: By which a rank's part of the step took longer than predicted.
        spread: One standard deviation of its logarithm: what is the run's own.
        traits: By the names of `pace.TRAITS`.
    """

    device: str
    name: str
    pace: float
    spread: float
    traits: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareProfile:
    """Constants of one generation of training software on one device architecture, dated, with their source.

    Fractions multiply what the catalogue states for the device; 1.0 means the device's own best.
    """

    name: str
    """Such as `megatron-2023`."""
    architecture: str = ""
    """Device architecture, or name of the one device, that the constants were read on; "" means any."""
    date: str = ""
    """Year and month, `2023-10`."""
    source: str = ""
    """Origin of the constants."""
    attention: Attention = "flash2"
    """Attention kernel family; `unfused` writes the score matrix to memory."""
    gemm_fraction: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share of the device's best 16-bit GEMM rate that this software's GEMMs reach at large shapes."""
    fp8_fraction: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share of the device's best 8-bit GEMM rate that 8-bit GEMMs reach."""
    fp4_fraction: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share that 4-bit GEMMs reach of the 4-bit peak times the device's best 8-bit share of peak."""
    fp8_scaling: Scaling = "tensor"
    """One scale of 8-bit operands for a tensor (delayed or current), or one for each row."""
    joule16: float = field(default=0.0, metadata=bounded(JOULE))
    """FLOP of 16-bit matrix products that a joule pays for when the device runs at its power limit; with its TDP the
    rate that a long step sustains. 0: power does not limit."""
    joule8: float = field(default=0.0, metadata=bounded(JOULE))
    """FLOP of 8-bit matrix products that a joule pays for; see `joule16`."""
    grouped_fraction: float = field(default=0.9, metadata=bounded(FRACTION))
    """Share of the dense GEMM rate that grouped expert GEMMs reach in 16 bits."""
    grouped_narrow: float = field(default=0.9, metadata=bounded(FRACTION))
    """Share of the dense GEMM rate that grouped expert GEMMs reach in 8 or 4 bits."""
    narrow_group_ps: int = 25_000_000
    """Device time of one expert's product in 8 or 4 bits beyond its tiles and operands: small kernels that scale and
    cast each expert's part, one expert after another."""
    head_precision: Precision = "bf16"
    """Datatype of the output projection's products, forward and backward."""
    attention_precision: AttentionPrecision = "bf16"
    """Datatype of the attention core's products: 16 bits whatever the precision of the job, or 8 (Transformer Engine's
    `fp8_dpa`)."""
    grouped_kernel: bool = False
    """Grouped products of a rank are one kernel, casts in it, and not a kernel for each expert."""
    fused_experts: bool = False
    """The whole MLP of a rank's experts: `grouped_kernel`, and bias, clamp and activation are part of the products
    (Transformer Engine's fused grouped MLP on Blackwell)."""
    fused_adapters: bool = False
    """LoRA has one adapter for queries, keys and values together, and one for gate and up (Megatron's `linear_qkv` and
    `linear_fc1`); else one for each of these matrices (Hugging Face PEFT)."""
    attention_forward: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share of the device's best attention rate that the forward kernel reaches on long sequences."""
    attention_backward: float = field(default=0.75, metadata=bounded(FRACTION))
    """Share of the device's best attention rate that the backward kernel reaches on long sequences."""
    memory_fraction: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share of the device's achievable memory bandwidth that elementwise kernels reach."""
    fused_norm: bool = True
    """Norms take one pass over memory, not one for each operation."""
    fused_activation: bool = True
    """Activations take one pass over memory, not one for each operation."""
    fused_residual: bool = True
    """Residual sums take one pass over memory, not one for each operation."""
    fused_rope: bool = True
    """Rotary positions take one pass over memory, not one for each operation."""
    fused_loss: bool = False
    """The cross-entropy takes one pass over memory, not one for each operation."""
    loss_bytes: float = 52.0
    """Memory traffic per logit of a cross-entropy that is not fused, forward and backward. Megatron's, split over the
    vocabulary: cast to 32 bits 6, maximum 4, subtraction 8, exponential 8, sum 4, division 8; gradient 8, cast 6.
    PyTorch's: cast 6, log-softmax 8; its gradient 12, cast 6."""
    loss_width: float = field(default=4.0, metadata=bounded(limits(1.0, 8.0)))
    """Bytes of an element of the loss's own copies of the logits where it is not fused: 4, or 2 without an upcast."""
    cast_bytes: float = 4.0
    """Memory traffic per element of a cast to 8 or 4 bits with its transpose (0: rides in other kernels)."""
    launch_ps: int = 6_000_000
    """Host time to launch one kernel; the step cannot go faster than its launches (0 under CUDA graphs)."""
    layer_host_ps: int = 0
    """Host time of one layer's pass beyond its launches (hooks, gathers, Python)."""
    cuda_graphs: bool = False
    """Launches are recorded once, and cost the host nothing."""
    graphs: tuple[str, ...] = ()
    """Parts of a layer that are recorded alone (`GRAPH_SCOPES`): the host has only the rest to launch."""
    communication_sms: float = field(default=0.1, metadata=bounded(SHARE))
    """Share of compute units that collectives take while they overlap with compute, where the budgets below are not
    stated."""
    tensor_ctas: int | None = field(default=None, metadata=bounded(limits(0, 1000)))
    """Compute units that tensor- and context-parallel collectives take while they overlap with compute (0 for copies by
    engines of their own); None: not stated."""
    data_ctas: int | None = field(default=None, metadata=bounded(limits(0, 1000)))
    """Compute units that reductions and gathers of data-parallel groups take while they overlap; see `tensor_ctas`."""
    expert_ctas: int | None = field(default=None, metadata=bounded(limits(0, 1000)))
    """Compute units that expert exchanges take while they overlap; see `tensor_ctas`."""
    tensor_overlap: float = field(default=0.7, metadata=bounded(SHARE))
    """Share of a tensor-parallel collective hidden when the layout overlaps it."""
    backward_overlap: float = field(default=0.85, metadata=bounded(SHARE))
    """Share of the backward pass's tensor-parallel collectives that run under weight-gradient products without any
    pipelining (Megatron from 2022 on)."""
    gradient_overlap: float = field(default=0.5, metadata=bounded(SHARE))
    """Share of the once-a-step gradient and parameter traffic that hides where there is time for it."""
    shard_overlap: float = field(default=0.95, metadata=bounded(SHARE))
    """Share of computation under which ZeRO-3 gathers and scatters layer by layer."""
    shard_messages: int = field(default=1, metadata=bounded(limits(1, 1000)))
    """Collectives in which ZeRO-3 gathers a layer: 1 for a block of FSDP, one a matrix in DeepSpeed."""
    gather_copies: bool = False
    """Each rank's part of what ZeRO-3 gathers is copied by a launch of its own (PyTorch's `all_gather` into a list, as
    DeepSpeed called it until 0.5)."""
    prefetch_parameters: float = 0.0
    """Weights that ZeRO-3 gathers ahead of the matrix that computes, at most (DeepSpeed's
    `stage3_prefetch_bucket_size`); what of a layer is beyond that is exposed. 0: the whole next layer (FSDP)."""
    expert_overlap: float = field(default=0.8, metadata=bounded(SHARE))
    """Share of the expert all-to-all hidden when the layout overlaps it."""
    context_overlap: float = field(default=0.9, metadata=bounded(SHARE))
    """Share of the exchange of keys and values hidden under attention: a ring sends the next ones while it computes
    with the last; 0 where all are gathered first (Llama 3, arXiv 2407.21783, section 3.3.2)."""
    pipeline_overlap: float = field(default=0.5, metadata=bounded(SHARE))
    """Share of pipeline sends hidden under the next computation."""
    schedules: tuple[Schedule, ...] = ("1f1b", "interleaved")
    """Pipeline schedules that it has: `auto` and remedies take no other. Virtual stages need `interleaved`."""
    scattered_sends: bool = False
    """Without sequence parallelism each tensor-parallel rank sends its part of an activation to the next stage, which
    gathers it again (Narayanan et al. 2021, section 4.1); else each sends all of it."""
    collective_host_ps: int = 0
    """Host time to start one collective."""
    recompute_stops: bool = False
    """Full recomputation stops in front of a layer's last product (PyTorch from 2.1 on, by default)."""
    collective_fraction: float = field(default=1.0, metadata=bounded(FRACTION))
    """Share of the link rate that collectives inside the scale-up domain reach."""
    expert_fraction: float = field(default=0.8, metadata=bounded(FRACTION))
    """Share of the link rate that the expert all-to-all reaches."""
    expert_once: bool = True
    """A token crosses to each domain (or rank of a domain) once, however many of its experts are there (DeepEP,
    HybridEP); else once for each expert."""
    dispatch_bytes: float = field(default=2.0, metadata=bounded(SIZE.within("0 B", "8 B")))
    """Bytes of one element on its way to the experts, forward or as a gradient (1: 8 bits); what comes back from
    experts has 2."""
    expert_host_ps: int = 0
    """Host time of an expert layer's pass beyond its launches (counts read back, Python between kernels), where none of
    it is recorded as a graph."""
    overlap_host: float = field(default=1.5, metadata=bounded(limits(1.0, 100.0)))
    """Host time of a layer under `overlap_expert`, over that without: its pass is cut into parts that are launched on
    two streams in turns with those of another micro-batch."""
    dispatcher: Dispatcher | Literal[""] = ""
    """Dispatcher of tokens to experts; "" as `expert_once` says."""
    optimizer_bytes: float = field(default=28.0, metadata=bounded(SIZE.within("1 B", "1 kB")))
    """Bytes read and written per parameter by an optimizer step."""
    gradient_bytes: int = field(default=4, metadata=bounded(SIZE.within("1 B", "8 B")))
    """Bytes per parameter of the gradient buffer that is reduced."""
    bucket_parameters: int = field(default=0, metadata=bounded(limits(0, 1e12)))
    """Parameters of one reduction of gradients where the layout names no bucket size; 0: one reduction a layer."""
    bucket_parameters_per_rank: int = field(default=0, metadata=bounded(limits(0, 1e9)))
    """Parameters of one reduction for each rank of the data-parallel group, where that is more than
    `bucket_parameters`."""
    first_stage_buckets: bool = False
    """Only the first virtual stage is cut into buckets; each later one is reduced in one piece."""
    fully_shard: bool = False
    """Memory under zero 3 is that of PyTorch's FSDP2 and its pipelining (torchtitan)."""
    local_batches: bool = False
    """A step may run its pipeline several times, a local batch each; else once, with the whole batch."""
    master_copy: bool = True
    """The optimizer updates a 32-bit copy of each parameter; else it updates the 16-bit one itself."""
    moment_bytes: int = field(default=4, metadata=bounded(SIZE.within("1 B", "8 B")))
    """Bytes of each of Adam's two moments: 4, or 2 with a precision-aware optimizer."""
    keeps_products: bool = True
    """The product of gate and up projection is kept for the down projection's weight gradient; else the backward kernel
    of the activation makes it again from its factors (xformers' SwiGLU, DeepSeek-V3)."""
    keeps_outputs: bool = True
    """Outputs of experts are kept, as the router's probabilities multiply them; else these multiply the activation in
    front of the down projection, whose output nothing needs (Megatron-Core from 0.13 on)."""
    gate_bytes: float = field(default=2.0, metadata=bounded(SIZE.within("0 B", "8 B")))
    """Bytes of an element of what gate and up projection give, kept for the activation's backward pass: 2, or 1 in 8
    bits (DeepSeek-V3; Megatron-Core's `activation_func_fp8_input_store`)."""
    narrow_parameter_bytes: float = field(default=2.0, metadata=bounded(SIZE.within("0 B", "8 B")))
    """Bytes of a layer's parameter under 8-bit products: 2 with the transposed copy that Hopper's want, or in 16 bits;
    1 where they take either order (Blackwell, one scale a tensor). Under 4-bit products frozen parameters are stored
    twice in 4 bits with a scale each 16; others in 16 bits."""
    keeps_placeholders: bool = True
    """A 16-bit tensor stays for every shape of weight whose gradient the product adds to the buffer itself (Transformer
    Engine from 2.3 on); else there is one of the largest while it is used."""
    step_ps: int = 5_000_000_000
    """Fixed host time of one step (loss sync, gradient norm, scheduler, logging)."""
    own_runs: tuple[OwnRun, ...] = ()
    """What a user's own runs say of their pace (`railyard calibrate runs`)."""

    def state_bytes(self, zero: int) -> int:
        """Bytes of a parameter's optimizer state that may be kept outside the accelerator, under a ZeRO stage."""
        return 2 * self.moment_bytes + (MASTER_BYTES if zero < 3 and self.master_copy else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLoading:
    """Reading training samples from storage.

    What is left out (None) is what the format has, see `formats`.

    Attributes:
        format: How samples are stored: `tokens`, `jsonl`, `parquet`, `images`, `image-shards`, `video-shards`,
            `volumes`, `records`.
        bytes_per_token: Stored bytes read per training token (tokenized text: 4 or less).
        items_per_sequence: Files or records read per sequence in addition to its tokens: images, clips, volumes.
        item_size_bytes: Mean stored size of one of them.
        item_spread: Standard deviation of that size over its mean.
        token_time_ps: Processor time to prepare one token (reading text, tokenizing).
        item_time_ps: Processor time to prepare one item (decoding, augmenting).
        access: `sequential` reads shards from end to end, ahead of what is needed; `random` asks for every item by
            itself.
        request_size_bytes: Largest single request to storage.
        queue_depth: Requests that one worker has under way at a time.
        workers: Loader processes next to the training process of each rank that reads; 0 lets the training process
            load, so that every step waits.
        prefetch: Steps that each worker reads ahead; 0 means that the step waits for its own samples.
        every_rank: Each rank reads for itself; else one rank of a tensor-parallel group reads, and broadcasts.
        dataset_size_bytes: What an epoch reads; wanted for a cache.
        cache: What a server keeps of it: `none`; `page-cache` (the host's memory, as Linux evicts); `lru` (the least
            recently used goes first); `pinned` (what came first stays); `shared` (pinned, no two servers the same).
        cache_read_bps: Rate at which a server's cache is read, such as that of its drives; 0 means memory, whose time
            is left out.
        epoch: `first` finds the cache empty, `later` finds it as full as it gets.
    """

    format: str = "tokens"
    bytes_per_token: float | None = field(default=None, metadata=bounded(limits(0.0, 1e6)))
    items_per_sequence: float | None = None
    item_size_bytes: int | None = None
    item_spread: float | None = field(default=None, metadata=bounded(limits(0.0, 100.0)))
    token_time_ps: int | None = None
    item_time_ps: int | None = None
    access: Access | None = None
    request_size_bytes: int | None = field(default=None, metadata=bounded(SIZE.within("1 B", "1 TB")))
    queue_depth: int = field(default=1, metadata=bounded(limits(1, 65_536)))
    workers: int = field(default=4, metadata=bounded(limits(0, 1024)))
    prefetch: int = field(default=2, metadata=bounded(limits(0, 100_000)))
    every_rank: bool = False
    dataset_size_bytes: int = 0
    cache: CachePolicy = "none"
    cache_size_bytes: int = field(
        default=0,
        metadata=bounded(
            SIZE.within(
                "0 B", "100 PB", usual=("0 B", "4 PB"), source="a server of 32 drives of 122.88 TB, the largest sold"
            )
        ),
    )
    cache_read_bps: float = 0.0
    epoch: Literal["first", "later"] = "later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Writing training state to storage, and copies of it to the memory of other servers.

    Attributes:
        interval_steps: Steps between two checkpoints on storage.
        asynchronous: Only the copy to host memory stalls the step; the write overlaps it.
        bytes_per_parameter: Parameters and optimizer state: 2 + 12 for 16-bit weights under Adam.
        gathered: One rank gathers and writes everything (a single file), instead of every rank its shard.
        copy_share: Of the link between accelerator and host, what copies to host memory reach; 1.0 is pinned memory at
            full rate, pageable memory reaches about 0.15.
        overlap_copy: An asynchronous checkpoint's copy overlaps the next step and has to end with it, instead of
            stalling.
        serialize_bps: Rate at which one rank turns its state into a file; 0 means as fast as it is written.
        memory_copies: Other servers whose host memory holds a copy of each rank's state; it crosses the network between
            accelerators where that is idle, and yields to everything else.
        memory_interval_steps: Steps between two such copies; each is spread evenly over the steps between.
        encryption: Of the file, on cores of the host before it leaves it; `none` leaves that to the drives.
        checksum: Of the file, against silent corruption; checked when it is read back.
        cores: Of a rank's host that encrypt and sum.
        keys: Who asks the key service: `none` (a key is there), one for the `job`, one for every `file`.
        key_time_ps: From a request to the key service to its answer.
        key_rate: That the service answers a second, of all writers; 0 means any number.
    """

    interval_steps: int = field(default=500, metadata=bounded(COUNTED))
    asynchronous: bool = True
    bytes_per_parameter: float = field(default=14.0, metadata=bounded(more_than(0.0, 1000.0)))
    gathered: bool = False
    copy_share: float = field(default=1.0, metadata=bounded(SOME_SHARE))
    overlap_copy: bool = False
    serialize_bps: float = 0.0
    memory_copies: int = field(default=0, metadata=bounded(limits(0, 1000)))
    memory_interval_steps: int = field(default=1, metadata=bounded(COUNTED))
    encryption: Literal["none", "aes-128-gcm", "aes-256-gcm"] = "none"
    checksum: Literal["none", "crc32c", "xxh3", "sha-256"] = "none"
    cores: int = field(default=1, metadata=bounded(limits(1, 1024)))
    keys: Literal["none", "job", "file"] = "none"
    key_time_ps: int = 20_000_000_000
    key_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Low-rank adapters on a frozen model.

    Attributes:
        rank: Width of the adapters.
        targets: `all` products of attention and of dense or shared MLPs, or those of `attention` alone.
    """

    rank: int = field(default=16, metadata=bounded(limits(1, 65_536)))
    targets: Targets = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training job.

    Attributes:
        precision: Of the GEMMs. Attention scores stay in 16 bits.
        tokens: Token budget of the job; 0 when only the step matters.
        optimizer: `adam` (two 4-byte moments and a 4-byte master copy).
        causal: Attention looks backward only.
        routing_skew: Exponent by which a router favours some experts (`architecture.imbalance`); 0 balances them.
        routing_own: Share of each rank's preference for experts that is its own (`architecture.tokens_between`).
        data: Reading of samples; None when their time is left out.
        checkpoint: Writing of checkpoints; None when their time is left out.
        communication: What the job does about limits of the network; None sends everything, in every step.
        offload: State kept in the cluster's memory pool; None keeps all on the accelerators.
        lora: Low-rank adapters trained next to a frozen model; None trains the model.
    """

    model: Model
    layout: Layout
    seq_len: int
    software: SoftwareProfile
    precision: Precision = "bf16"
    tokens: int = 0
    optimizer: Literal["adam"] = "adam"
    causal: bool = True
    routing_skew: float = 0.0
    routing_own: float = 0.0
    data: DataLoading | None = None
    checkpoint: Checkpoint | None = None
    communication: Communication | None = None
    offload: Offload | None = None
    lora: Lora | None = None

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step."""
        return self.layout.global_batch * self.seq_len

    @property
    def steps(self) -> int:
        """Optimizer steps of the token budget, rounded up."""
        return -(-self.tokens // self.step_tokens)

    def replace(self, **changes: Any) -> Training:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)
