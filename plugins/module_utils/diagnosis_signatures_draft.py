"""Signatures of failures between target and draft model."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    FOLLOWS,
    GENERAL,
    LOW,
    MEDIUM,
    Signature,
    signature,
)

_CONFIG = "srt/configs/model_config.py _derive_context_length"

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "draft-context/derived-length",
        r"^\w+Error: .*context_length \(\d+\) is greater than the derived context_length \(\d+\)",
        "ValueError: Warning: Target model's context_length (8192) is greater than the derived context_length (2048).",
        _CONFIG,
        versions="0.5.6-0.5.23",
    ),
    signature(
        "draft-context/derived-model-len",
        r"max_model_len \(\d+\) is greater than the derived max_model_len"
        r"|draft model config's max_model_len \(\d+\) is less than",
        "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len"
        " (max_position_embeddings=2048 or model_max_length=None in model's config.json).",
        "vllm/config.py",
    ),
    signature(
        "draft-context/past-the-end",
        r"idx_dim >= 0 && idx_dim < index_size",
        "ScatterGatherKernel.cu:365: operator(): block: [0,0,0], thread: [1,0,0] Assertion `idx_dim >= 0 && idx_dim <"
        ' index_size && "scatter gather kernel index out of bounds"` failed.',
        "sgl-project/sglang PR 9388: a draft past its rotary table",
        confidence=MEDIUM,
    ),
    signature(
        "draft-context/overwritten",
        r"context_length \(\d+\) is greater than the derived context_length \(\d+\)"
        r"|Overriding the draft model's max_position_embeddings",
        "Warning: Target model's context_length (8192) is greater than the derived context_length (2048).",
        _CONFIG,
        versions="0.5.1-0.5.23",
        confidence=LOW,
        warning=True,
        strength=GENERAL,
    ),
    signature(
        "draft-vocab/size-mismatch",
        r"size mismatch for (?:\w+\.)*(?:lm_head|embed_tokens|d2t|t2d)\b",
        "size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint",
        "torch/nn/modules/module.py load_state_dict; SafeAILab/EAGLE#249",
    ),
    signature(
        "draft-vocab/logits-shape",
        r"Expected logits to have shape|(?:has no attribute|KeyError:) '?draft_vocab_size'?"
        r"|draft_vocab_size .*(?:must|does not|mismatch|differ)",
        "AssertionError: Expected logits to have shape (*, 128256), but got torch.Size([1, 32000])",
        "vllm llama_eagle3.py compute_logits; srt/models/llama_eagle3.py",
    ),
    signature(
        "draft-vocab/shape-of-head",
        r"org_vocab_size=\d+.*loaded_weight\.shape|assert loaded_weight\.shape\[output_dim\] =="
        r"|draft vocab \(\d+\) != target vocab|share the same vocabulary as the target"
        r"|shape (?:mismatch|'?\[).*(?:lm_head|d2t|hot_token_id)|(?:d2t|hot_token_id).*(?:out of (?:range"
        r"|bounds)|mismatch)",
        "RuntimeError: shape mismatch: value tensor of shape [32000] cannot be broadcast to d2t of shape [128256]",
        "srt/models/llama_eagle3.py load_weights",
        confidence=MEDIUM,
    ),
    signature(
        "draft-arch/no-such-layer",
        r"KeyError: '(?:\w+\.)*midlayer\.",
        "KeyError: 'midlayer.self_attn.qkv_proj.weight'",
        "sgl-project/sglang#9135: config.json names the target's class",
    ),
    signature(
        "draft-arch/model-type",
        r"CONFIG_MAPPING\[config_dict\[.model_type.\]\]|has model type `[\w.-]+` but Transformers does not recognize"
        r"|KeyError: '(?:eagle\w*|llama_eagle\w*|kimi_\w+|deepseek_v\d\w*|deepseek_mtp|qwen3\w+)'$"
        r"|Unrecognized (?:model in|configuration class)|Should have a `model_type` key",
        'config_class = CONFIG_MAPPING[config_dict["model_type"]]',
        "transformers configuration_auto.py; sgl-project/sglang#25673",
    ),
    signature(
        "draft-arch/unknown-draft",
        r"Model architectures? \[.*(?:[Ee]agle|EAGLE|NextN|MTP|Medusa).*\] (?:are|is) not supported",
        "ValueError: Model architectures ['Eagle3DeepseekV2ForCausalLM'] are not supported for now.",
        "srt/models/registry.py, vllm registry.py",
    ),
    signature(
        "target-unsupported/architecture",
        r"Model architectures? \[.*\] (?:are|is) not supported|has no SG[Ll]ang implementation",
        "ValueError: Model architectures ['KimiK25ForConditionalGeneration'] are not supported for now.",
        "srt/models/registry.py",
        confidence=MEDIUM,
        phases=("weights",),
    ),
    signature(
        "draft-arch/unknown-second-model",
        r"Model architectures? \[.*\] (?:are|is) not supported|Cannot find model module|has no SG[Ll]ang implementation"
        r"|Unsupported architectures: ",
        "ValueError: Model architectures ['Foo'] are not supported for now. Supported architectures: x",
        "srt/models/registry.py",
        confidence=MEDIUM,
    ),
    signature(
        "draft-arch/one-layer",
        r"EAGLE-?3 (?:currently )?only supports? (?:1|one|a single) layer|Eagle3 MLA layer requires q_lora_rank"
        r"|(?:num_hidden_layers|number of layers).*(?:EAGLE|[Ee]agle).*(?:must be|should be) 1",
        "ValueError: EAGLE3 currently only supports 1 layer",
        "srt/models/llama_eagle3.py; srt/models/kimi_k25_eagle3.py",
    ),
    signature(
        "draft-arch/hidden-size",
        r"mat1 and mat2 shapes cannot be multiplied|assert hidden_states\.shape\[-1\] == input_embeds\.shape\[-1\]"
        r"|assert hidden_states\.shape\[-1\] == embeds\.shape\[-1\]|size mismatch for (?:\w+\.)*fc\b",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (12x14336 and 21504x7168)",
        "SafeAILab/EAGLE#294; vllm-project/vllm#18906: fc does not fit three hidden states of the target",
        confidence=MEDIUM,
    ),
    signature(
        "draft-backend/not-supported",
        r"(?:is not supported|not supported|unsupported|does not support).{0,40}(?:(?:decode|draft|extend"
        r"|prefill)[ _])?"
        r"attention[ _]backend|[Aa]ttention backend .{0,40}(?:does not support|is not supported|not compatible|only"
        r" supports?)|EAGLE is not supported in|\w+ backend requires MLA model|[Dd]raft (?:model"
        r"|worker).{0,60}attention.backend"
        r"|(?:trtllm_mla|cutlass_mla|flashmla|flashinfer_mla|fa3|fa4|triton|aiter|trtllm_mha|flashinfer"
        r"|ascend|torch_native)"
        r" (?:attention )?backend .{0,60}(?:only|not|requires?).{0,80}(?:spec|draft|EAGLE|topk|MLA|head)",
        "ValueError: EAGLE is not supported in attention backend torch_native",
        "srt/speculative/draft_utils.py; srt/model_executor/model_runner.py",
        versions="0.5.6-0.5.23",
    ),
    signature(
        "draft-backend/mla-on-mha",
        r"(?:Config|Runner|Attention)' object has no attribute '(?:kv_lora_rank|q_lora_rank|qk_nope_head_dim"
        r"|qk_rope_head_dim|v_head_dim|scaling)'",
        "AttributeError: 'ModelConfig' object has no attribute 'kv_lora_rank'",
        "srt/layers/attention/trtllm_mla_backend.py: the draft inherits the target's MLA backend",
        confidence=MEDIUM,
    ),
    signature(
        "draft-backend/triton-extend",
        r"kv_indices(?:=|\s+is\s+)None|at \d+:\d+:.*kv_indices",
        "triton.compiler.errors.CompilationError: at 60:24: kv_indices=None",
        "sgl-project/sglang#24481",
        confidence=MEDIUM,
    ),
    signature(
        "draft-globals/chunked-prefix",
        r"assert not (?:get_global_server_args\(\)|global_server_args_dict"
        r"|self\.server_args)\S*disable_chunked_prefix_cache"
        r"|assert not .*disable_chunked_prefix_cache",
        "assert not get_global_server_args().disable_chunked_prefix_cache",
        "srt/layers/attention/flashattention_backend.py; sgl-project/sglang#22780",
    ),
    signature(
        "draft-keys/weight-name",
        r"KeyError: '(?:[\w-]+\.)+[\w-]*(?:weight|bias|scale|scale_inv|qweight|qzeros|scales|g_idx|zero_point)\w*'"
        r"|KeyError: '(?:embed_tokens|lm_head|fc|d2t|t2d|norm)(?:\.weight)?'",
        "KeyError: 'model.layers.0.mlp.experts.w13_weight_scale'",
        "srt/models/*.py load_weights; sgl-project/sglang#5095",
    ),
    signature(
        "draft-keys/state-dict",
        r"(?:Missing|Unexpected) key\(s\) in state_dict|weights were not initialized from checkpoint"
        r"|Parameter \S+ not found in the model|There is no module or parameter named"
        r"|Attempted to load weight \(torch\.Size"
        r"|assert param(?:_data|\.data)?\.(?:shape|size\(\)) == loaded_weight"
        r"|start \(\d+\) \+ length \(\d+\) exceeds dimension size",
        'Missing key(s) in state_dict: "fc.weight"',
        "torch/nn/modules/module.py; vllm model_loader; vllm-project/vllm#8849",
    ),
    signature(
        "draft-keys/load-state-dict",
        r"Error\(s\) in loading state_dict|size mismatch for \w+|size mismatch - ckpt: torch\.Size",
        "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLMEagle3:",
        "torch/nn/modules/module.py: the heading of the list of tensors",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "draft-keys/not-in-parameters",
        r"Parameter \S+ not found in params_dict",
        "Parameter layers.0.self_attn.q_proj.weight_scale not found in params_dict",
        "srt/models/llama_eagle3.py load_weights",
        confidence=LOW,
        warning=True,
        strength=GENERAL,
    ),
    signature(
        "draft-unwired/mean-of-one",
        r"(?:Average|Mean|[Aa]vg\.?) [Aa]ccept(?:ance)? length: 1\.0[0-4]\d?\b",
        "Average Accept length: 1.037",
        "sgl-project/SpecForge#310; vllm v1/spec_decode/metrics.py",
        strength=GENERAL,
        confidence=MEDIUM,
    ),
    signature(
        "slow-spec/mean-length",
        r"(?:Average|Mean|[Aa]vg\.?) [Aa]ccept(?:ance)? length ?[:=] ?(?:1\.(?:0[5-9]|[1-9])|2\.[01])\d*\b",
        "Average Accept length: 1.86",
        "sgl-project/SpecForge benchmarks; vllm v1/spec_decode/metrics.py",
        strength=FOLLOWS,
        confidence=LOW,
    ),
    signature(
        "target-unsupported/no-hook",
        r"(?:has no attribute|does not implement) '?set_eagle3_layers_to_capture"
        r"|(?:language_model|[Mm]odel|target) does not support EAGLE-?3"
        r"|[Ee](?:agle|AGLE)-?3 (?:is )?(?:only )?(?:not )?supported (?:for|by|only)|SupportsEagle3",
        "AttributeError: 'Qwen3_5MoeForConditionalGeneration' object has no attribute 'set_eagle3_layers_to_capture'",
        "srt/model_executor/model_runner.py 0.5.9; attention_backend_setup.py 0.5.23; models/kimi_k25.py 0.5.10",
        versions="0.5.6-0.5.22 and 0.5.23",
    ),
)
