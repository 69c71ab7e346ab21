"""The architectures that llama.cpp knows, each as the least hyper-parameters that make a tiny model of it.

Which tensors a model has then, and in which shapes, llama.cpp says itself (`tests.models.shaped`). docs/models.md is
made from this table. What is in it is tested: tests/engine/llama/architectures.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Value = bool | int | float | str | tuple[bool, ...] | tuple[int, ...]
Values = Mapping[str, Value]
"""Entries of a file without the architecture's name in front; those that begin with a colon have none."""

Memory = Literal["attention", "window", "state", "both"]
"""What is kept of a text: keys and values of all tokens, in some layers of the latest ones, a state, or all of it."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One that is served."""

    name: str
    """`general.architecture` of its files."""
    known_as: str
    """Models that people know."""
    values: Values = field(default_factory=dict)
    memory: Memory = "attention"
    why_not_exact: str = ""
    """Why its seeded requests are not reproducible to the bit; empty if they are."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One that is not."""

    name: str
    known_as: str
    reason: str
    """What the refusal says."""
    values: Values = field(default_factory=dict)
    aborts: bool = False
    """Whether it is llama.cpp that ends the process."""


COMMON: Values = {
    "context_length": 1024,
    "embedding_length": 128,
    "block_count": 2,
    "feed_forward_length": 256,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_epsilon": 1e-5,
    "attention.layer_norm_rms_epsilon": 1e-5,
}

# Hyper-parameters that several architectures share. What one does not know, it does not read.

EXPERTS: Values = {
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_shared_count": 1,
    "expert_feed_forward_length": 64,
    "expert_shared_feed_forward_length": 64,
    "expert_weights_scale": 1.0,
    "leading_dense_block_count": 1,
}
SIGMOID: Values = {"expert_gating_func": 2}
WIDE_EXPERTS: Values = {**EXPERTS, "feed_forward_length": 64}
"""Each as wide as a layer without experts is."""
SCALES: Values = {"logit_scale": 4.0, "embedding_scale": 3.0, "residual_scale": 0.5, "attention.scale": 0.1}
SECTIONS: Values = {"rope.dimension_sections": (4, 4, 4, 4)}

WINDOW: Values = {"attention.sliding_window": 16}
EVERY_SECOND: Values = {**WINDOW, "attention.sliding_window_pattern": 2}
ALTERNATING: Values = {**WINDOW, "attention.sliding_window_pattern": (True, False)}

LATENT: Values = {
    "attention.head_count_kv": 1,
    "attention.q_lora_rank": 64,
    "attention.kv_lora_rank": 64,
    "attention.key_length": 96,
    "attention.value_length": 64,
    "attention.key_length_mla": 64,
    "attention.value_length_mla": 32,
    "rope.dimension_count": 32,
}
"""Keys and values compressed together."""
UNCOMPRESSED: Values = {
    **LATENT,
    "attention.head_count_kv": 4,
    "attention.key_length": 64,
    "attention.value_length": 32,
}
INDEXER: Values = {
    "attention.indexer.head_count": 4,
    "attention.indexer.key_length": 64,
    "attention.indexer.top_k": 32,
}

HEADLESS: Values = {"attention.head_count": 0, "attention.head_count_kv": 0}
FIRST_LAYER: Values = {"attention.head_count": (4, 0), "attention.head_count_kv": (2, 0)}
"""Attention in the first layer, a state in the second."""
SECOND_LAYER: Values = {"attention.head_count": (4, 4), "attention.head_count_kv": (0, 1)}
"""The other way round."""

SCAN: Values = {"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.time_step_rank": 8}
GROUPED_SCAN: Values = {**SCAN, "ssm.time_step_rank": 4, "ssm.group_count": 1}
DELTA: Values = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 128,
    "ssm.state_size": 32,
    "ssm.time_step_rank": 4,
    "ssm.group_count": 2,
    "full_attention_interval": 2,
}
KIMI_DELTA: Values = {**LATENT, **SECOND_LAYER, "ssm.conv_kernel": 4, "kda.head_dim": 32, "kda.gate_lower_bound": -5.0}
BLOCKS_OF_ONE_KIND: Values = {
    **GROUPED_SCAN,
    "block_count": 3,
    "attention.head_count_kv": (0, 2, 0),
    "attention.key_length": 32,
    "attention.value_length": 32,
    "feed_forward_length": (0, 0, 256),
}
"""A layer with a state, one with attention, and one of neither."""
# llama.cpp's kernel takes 64 numbers at a time.
WKV: Values = {"wkv.head_size": 64}
TIME_MIX: Values = {**WKV, "time_mix_extra_dim": 32, "time_decay_extra_dim": 32}
TIME_MIX_7: Values = {
    **WKV,
    "attention.decay_lora_rank": 16,
    "attention.iclr_lora_rank": 16,
    "attention.value_residual_mix_lora_rank": 16,
    "attention.gate_lora_rank": 16,
}
SHORT_CONVOLUTION: Values = {**FIRST_LAYER, "shortconv.l_cache": 3}

ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture("afmoe", "Trinity", {**EXPERTS, **EVERY_SECOND}, "window"),
    Architecture(
        "apertus", "Apertus", {":xielu.alpha_n": 0.5, ":xielu.alpha_p": 0.5, ":xielu.beta": 0.5, ":xielu.eps": 1e-6}
    ),
    Architecture("arcee", "AFM 4.5B"),
    Architecture("arctic", "Snowflake Arctic", WIDE_EXPERTS),
    Architecture("arwkv7", "ARWKV", {**TIME_MIX_7, "token_shift_count": 1}, "state"),
    Architecture("baichuan", "Baichuan"),
    Architecture("bailingmoe", "Ling 1", EXPERTS),
    Architecture("bailingmoe2", "Ling 2, Sarvam", {**EXPERTS, **SIGMOID}),
    Architecture("bailingmoe3", "Ling 3", {**EXPERTS, **SIGMOID, **KIMI_DELTA, "kda.safe_gate": True}, "both"),
    Architecture("bitnet", "BitNet b1.58"),
    Architecture("bloom", "BLOOM"),
    Architecture("chatglm", "ChatGLM 3, GLM-4 9B"),
    Architecture("codeshell", "CodeShell"),
    Architecture("cohere2", "Command R7B", {**EVERY_SECOND, "logit_scale": 0.5}, "window"),
    Architecture("cohere2moe", "North Mini Code", {**EXPERTS, **ALTERNATING, "logit_scale": 0.5}, "window"),
    Architecture("command-r", "Command R, Aya", {"logit_scale": 0.5}),
    Architecture("dbrx", "DBRX", {**WIDE_EXPERTS, "attention.clamp_kqv": 8.0}),
    Architecture("deci", "Llama-Nemotron 51B, DeciLM"),
    Architecture("deepseek", "DeepSeek MoE 16B", EXPERTS),
    Architecture("deepseek2", "DeepSeek V2, V3 and R1, GLM-4.7 Flash", {**EXPERTS, **LATENT}),
    Architecture("deepseek32", "DeepSeek V3.2", {**EXPERTS, **SIGMOID, **LATENT, **INDEXER}),
    Architecture("dots1", "dots.llm1", {**EXPERTS, **SIGMOID, "attention.head_count_kv": 4}),
    Architecture("ernie4_5", "ERNIE 4.5"),
    Architecture("ernie4_5-moe", "ERNIE 4.5 A3B", {**EXPERTS, "interleave_moe_layer_step": 1}),
    Architecture("exaone", "EXAONE 3"),
    Architecture("exaone4", "EXAONE 4", EVERY_SECOND, "window"),
    Architecture("exaone-moe", "K-EXAONE", {**EXPERTS, **SIGMOID, **EVERY_SECOND}, "window"),
    Architecture("falcon", "Falcon"),
    Architecture("falcon-h1", "Falcon H1", GROUPED_SCAN, "both"),
    Architecture("gemma", "Gemma 1, CodeGemma"),
    Architecture("gemma2", "Gemma 2", EVERY_SECOND, "window"),
    Architecture("gemma3", "Gemma 3", EVERY_SECOND, "window"),
    Architecture(
        "gemma3n",
        "Gemma 3n",
        # llama.cpp has it that the layers from the 20th on use the keys and values of those before.
        {
            **WINDOW,
            "attention.sliding_window_pattern": 5,
            "block_count": 22,
            "embedding_length": 32,
            "feed_forward_length": 32,
        },
        "window",
    ),
    Architecture(
        "gemma4",
        "Gemma 4",
        {
            **ALTERNATING,
            "attention.shared_kv_layers": 0,
            "attention.key_length_swa": 32,
            "attention.value_length_swa": 32,
            "embedding_length_per_layer_input": 64,
            "rope.freq_base_swa": 10000.0,
        },
        "window",
    ),
    Architecture("glm-dsa", "GLM-5", {**EXPERTS, **SIGMOID, **LATENT, **INDEXER}),
    Architecture("glm4", "GLM-4 0414"),
    Architecture("glm4moe", "GLM-4.5, Solar Open", EXPERTS),
    Architecture("gpt-oss", "gpt-oss", {**EXPERTS, **EVERY_SECOND}, "window"),
    Architecture("gpt2", "GPT-2"),
    Architecture("gptneox", "GPT-NeoX, Pythia", {"use_parallel_residual": True}),
    Architecture("granite", "Granite 3", SCALES),
    Architecture("granitemoe", "Granite 3 MoE", {**SCALES, **WIDE_EXPERTS}),
    Architecture("granitehybrid", "Granite 4 H, Bamba", {**SCALES, **GROUPED_SCAN, **FIRST_LAYER}, "both"),
    Architecture("granite_swa", "Granite with a sliding window", {**SCALES, **ALTERNATING}, "window"),
    Architecture("grok", "Grok 1 and 2", EXPERTS),
    Architecture(
        "grovemoe",
        "GroveMoE",
        {**EXPERTS, "expert_group_scale": 0.05, "experts_per_group": 2, "expert_chunk_feed_forward_length": 64},
    ),
    Architecture("hunyuan-dense", "Hunyuan 0.5B to 7B"),
    Architecture("hunyuan-moe", "Hunyuan A13B", WIDE_EXPERTS),
    Architecture("internlm2", "InternLM 2"),
    Architecture("jais", "Jais", {"attention.max_alibi_bias": 8.0}),
    Architecture("jais2", "Jais 2"),
    Architecture("jamba", "Jamba", {**WIDE_EXPERTS, **SCAN, **FIRST_LAYER}, "both"),
    Architecture("kimi-linear", "Kimi Linear", {**EXPERTS, **SIGMOID, **KIMI_DELTA}, "both"),
    Architecture("laguna", "Laguna XS and S", {**EXPERTS, **EVERY_SECOND}, "window"),
    Architecture("lfm2", "LFM2", SHORT_CONVOLUTION, "both"),
    Architecture("lfm2moe", "LFM2 8B A1B", {**EXPERTS, **SIGMOID, **SHORT_CONVOLUTION}, "both"),
    Architecture("llama", "Llama 1 to 3, Mistral, Mixtral, SmolLM, TinyLlama, Yi"),
    Architecture(
        "llama4",
        "Llama 4",
        {**EXPERTS, "interleave_moe_layer_step": 2, "block_count": 4, "rope.dimension_count": 32},
        "window",
    ),
    Architecture("maincoder", "Maincoder"),
    Architecture("mamba", "Mamba, Falcon Mamba", {**SCAN, **HEADLESS}, "state"),
    Architecture("mamba2", "Mamba 2, Codestral Mamba", {**GROUPED_SCAN, **HEADLESS}, "state"),
    Architecture("mellum", "Mellum 2", {**EXPERTS, **EVERY_SECOND}, "window"),
    Architecture("mimo2", "MiMo V2", {**EXPERTS, **ALTERNATING}, "window"),
    Architecture("minicpm", "MiniCPM 1 and 2"),
    Architecture("minicpm3", "MiniCPM 3", UNCOMPRESSED),
    Architecture(
        "minimax-01",
        "MiniMax Text 01 and M1",
        {**WIDE_EXPERTS, **SCALES, "full_attention_interval": 2, "attention.head_count_kv": 4},
        "both",
        "llama.cpp adds up its linear attention in other orders for other pieces of a prompt",
    ),
    Architecture("minimax-m2", "MiniMax M2", {**WIDE_EXPERTS, **SIGMOID}),
    Architecture(
        "minimax-m3",
        "MiniMax M3",
        {
            **EXPERTS,
            **SIGMOID,
            **INDEXER,
            "attention.indexer.head_count": 2,
            "attention.indexer.block_size": 4,
            "attention.indexer.local_blocks": 1,
            "rope.dimension_count": 32,
        },
    ),
    Architecture("mistral3", "Mistral Small 3.1, Ministral 3"),
    Architecture("mistral4", "Mistral Small 4", {**EXPERTS, **LATENT}),
    Architecture("mpt", "MPT", {"attention.max_alibi_bias": 8.0}),
    Architecture("nanbeige", "Nanbeige 4.2"),
    Architecture("nemotron", "Nemotron 4, Minitron"),
    Architecture("nemotron_h", "Nemotron H, Nemotron Nano 2", BLOCKS_OF_ONE_KIND, "both"),
    Architecture("nemotron_h_moe", "Nemotron 3", {**EXPERTS, **BLOCKS_OF_ONE_KIND}, "both"),
    Architecture("olmo", "OLMo 1"),
    Architecture("olmo2", "OLMo 2 and 3", EVERY_SECOND, "window"),
    Architecture("olmoe", "OLMoE", {**WIDE_EXPERTS, "attention.head_count_kv": 4}),
    Architecture("openelm", "OpenELM"),
    Architecture("orion", "Orion 14B"),
    Architecture("pangu-embedded", "openPangu Embedded"),
    Architecture("phi2", "Phi 1 and 2"),
    Architecture("phi3", "Phi 3 and 4"),
    Architecture("phimoe", "Phi 3.5 MoE", WIDE_EXPERTS),
    Architecture("plamo", "PLaMo 1"),
    Architecture("plamo3", "PLaMo 3", EVERY_SECOND, "window"),
    Architecture("plm", "PLM 1.8B", UNCOMPRESSED),
    Architecture("qwen", "Qwen 1"),
    Architecture("qwen2", "Qwen 1.5, 2 and 2.5, Qwen2.5-Coder"),
    Architecture("qwen2moe", "Qwen 1.5 and 2 MoE", EXPERTS),
    Architecture("qwen2vl", "Qwen 2 and 2.5 VL, text", SECTIONS),
    Architecture("qwen3", "Qwen 3, Step 3 VL"),
    Architecture("qwen3moe", "Qwen 3 MoE, Qwen3-Coder", EXPERTS),
    Architecture("qwen3next", "Qwen3 Next, Qwen3-Coder-Next", {**EXPERTS, **DELTA}, "both"),
    Architecture("qwen3vl", "Qwen 3 VL, text", SECTIONS),
    Architecture("qwen3vlmoe", "Qwen 3 VL MoE, text", {**EXPERTS, **SECTIONS}),
    Architecture("qwen35", "Qwen 3.5", {**DELTA, **SECTIONS}, "both"),
    Architecture("qwen35moe", "Qwen 3.5 MoE", {**EXPERTS, **DELTA, **SECTIONS}, "both"),
    Architecture("refact", "Refact"),
    Architecture("rwkv6", "RWKV 6", {**TIME_MIX, **HEADLESS}, "state"),
    Architecture("rwkv7", "RWKV 7", {**TIME_MIX_7, **HEADLESS}, "state"),
    Architecture("seed_oss", "Seed-OSS"),
    Architecture("smallthinker", "SmallThinker", {**EXPERTS, **SIGMOID, **EVERY_SECOND}, "window"),
    Architecture("smollm3", "SmolLM 3"),
    Architecture("stablelm", "StableLM"),
    Architecture("starcoder", "StarCoder 1, SantaCoder"),
    Architecture("starcoder2", "StarCoder 2"),
    Architecture("step35", "Step 3.5 and 3.7", {**EXPERTS, **ALTERNATING}, "window"),
    Architecture("xverse", "XVERSE"),
)

NO_TEXT = "does not continue text"

REFUSED: tuple[Refused, ...] = (
    Refused("bert", "BERT, BGE, E5", NO_TEXT, {":tokenizer.ggml.token_type_count": 2}),
    Refused("cogvlm", "CogVLM", "the logits of other tokens", {"attention.head_count_kv": 4}),
    Refused("dream", "Dream, a diffusion model", NO_TEXT),
    Refused("gemma-embedding", "EmbeddingGemma", NO_TEXT, EVERY_SECOND),
    Refused("llada", "LLaDA, a diffusion model", NO_TEXT),
    Refused("modern-bert", "ModernBERT", NO_TEXT, EVERY_SECOND),
    Refused("nomic-bert", "Nomic Embed", NO_TEXT, {":tokenizer.ggml.token_type_count": 2}),
    Refused(
        "plamo2",
        "PLaMo 2",
        "llama.cpp gives up",
        {**GROUPED_SCAN, **FIRST_LAYER, "ssm.group_count": 0},
        aborts=True,
    ),
    Refused("t5", "T5, Flan-T5", NO_TEXT, {"attention.relative_buckets_count": 8}),
    Refused("t5encoder", "encoders of T5", NO_TEXT, {"attention.relative_buckets_count": 8}),
)
