"""Names of a model's dimensions in configuration files."""

from __future__ import annotations

# The usual name first.
NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads"),
    "kv_heads": (
        *("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "kv_n_heads"),
        *("num_attention_groups", "num_query_groups", "multi_query_group_num"),
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim", "d_head", "head_size"),
    "ffn": (
        *("intermediate_size", "ffn_hidden_size", "ffn_dim", "inter_dim", "hidden_dim", "d_ff", "n_inner"),
        "mlp_hidden_size",
    ),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "max_seq": (
        *("max_position_embeddings", "max_seq_len", "seq_length", "n_positions", "max_sequence_length"),
        *("model_max_length", "context_length", "n_ctx", "max_context_length"),
    ),
    "experts": (
        *("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts"),
        *("n_experts", "num_moe_experts"),
    ),
    "experts_per_token": (
        *("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
        *("n_activated_experts", "top_k_experts", "num_selected_experts", "moe_router_topk", "num_activated_experts"),
    ),
    "moe_ffn": (
        *("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
        *("moe_inter_dim", "routed_expert_intermediate_size", "expert_hidden_size"),
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_ffn": (
        *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"),
        "share_expert_dim",
    ),
    "start": (
        *("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "n_dense_layers", "first_k_dense"),
        "num_first_dense_layers",
    ),
    "every": ("moe_layer_freq", "moe_layer_interval", "moe_layer_frequency", "interleave_moe_layer_step"),
    "groups": ("n_group", "n_expert_groups"),
    "groups_per_token": ("topk_group", "n_limited_groups"),
    "mtp": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules"),
    "window": ("sliding_window", "sliding_window_size", "window_size", "attention_window_size"),
    "index_heads": ("index_n_heads", "sparse_num_index_heads"),
    "index_dim": ("index_head_dim", "sparse_index_dim"),
}
