"""Signatures of refused settings, unusable model files, requests and ports."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import (
    GENERAL,
    MEDIUM,
    Signature,
    signature,
)

SIGNATURES: Tuple[Signature, ...] = (
    signature(
        "adaptive-start/logits-buffer",
        r"shared logits buffer holds \d+ rows but caller needs \d+",
        "AssertionError: shared logits buffer holds 32 rows but caller needs 64 (vocab_size=4096)",
        "srt/model_executor/graph_shared_output.py; sgl-project/sglang#30549",
        versions="0.5.15-0.5.18",
    ),
    signature(
        "adaptive-start/no-candidate",
        r"is not in the adaptive config candidate_steps",
        "ValueError: --speculative-num-steps=5 is not in the adaptive config candidate_steps [0, 1, 3, 7]. Pass one of"
        " those values.",
        "srt/arg_groups/speculative_hook.py _init_adaptive_speculative_params",
        versions="0.5.13-0.5.23",
    ),
    signature(
        "spec-args/command-line",
        r"(?:launch_server(?:\.py)?|sglang serve|sglang): error: |error: (?:unrecognized arguments|ambiguous option"
        r"|argument -|the following arguments are required)|got an unexpected keyword argument '(?:speculative"
        r"|disable|enable)_",
        "launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs",
        "argparse",
    ),
    signature(
        "spec-args/algorithm",
        r"Unknown speculative algorithm|invalid choice: .* \(choose from",
        "ValueError: Unknown speculative algorithm name: EAGLE4",
        "srt/speculative/spec_info.py; argparse",
    ),
    signature(
        "spec-args/tree",
        r"Sizes of tensors must match except in dimension [01-]+\. Expected size \d+ but got size \d+",
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 6 but got size 8 for tensor"
        " number 1 in the list.",
        "srt/models/llama_eagle3.py forward; sgl-project/sglang#13352",
        confidence=MEDIUM,
    ),
    signature(
        "spec-args/rule",
        r"^(?:\w+(?:\.\w+)*(?:Error|Exception|Warning): ).*(?:speculative[_-](?:num|eagle|algo|draft"
        r"|token)\w*|spec(?:ulative)?"
        r"[ _-]?v2|topk).*(?:must|should|cannot|not supported|not compatible|incompatible|requires?|only"
        r"|has to|expected"
        r"|missing|greater|less|equal|at least|at most)",
        "ValueError: speculative_num_draft_tokens must be at least speculative_num_steps + 1",
        "srt/server_args.py; srt/arg_groups/speculative_hook.py",
    ),
    signature(
        "spec-args/combination",
        r"^(?:\w+\.)*\w+(?:Error|Exception): .*\b(?:[Ss]peculative [Dd]ecoding|EAGLE3?|NEXTN|spec[ _-]decod\w*)\b.*"
        r"(?:must|should|cannot|not supported|does(?: not|n't) (?:yet )?support|(?:not |in)compatible|requires?"
        r"|required)",
        "ValueError: Speculative decoding is not compatible with pipeline parallelism",
        "srt/server_args.py; vllm config",
        confidence=MEDIUM,
    ),
    signature(
        "spec-args/assertion",
        r"AssertionError: .*(?:speculative|topk|num_steps|draft_tokens)|assert .*speculative_(?:num|eagle)\w+ "
        r"|Only speculative[_-]eagle[_-]topk",
        "AssertionError: Only speculative_eagle_topk=1 is supported",
        "srt/server_args.py; sgl-project/sglang#14077",
        confidence=MEDIUM,
    ),
    signature(
        "spec-args/division",
        r"^(?:Value|Assertion|Runtime)Error: .*(?:is not divisible by|must be divisible by|not a multiple of)"
        r"|CUDA error: invalid device ordinal",
        "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (7).",
        "srt/layers, srt/models: tensor parallel size and model do not fit; CUDA runtime error 101",
        confidence=MEDIUM,
    ),
    signature(
        "spec-args/no-draft-path",
        r"has no attribute '(?:set_embed|hot_token_id|get_embed_and_head|set_embed_and_head|get_hot_token_id)'",
        "AttributeError: 'KimiK25ForConditionalGeneration' object has no attribute 'set_embed'",
        "sgl-project/sglang#36528: without speculative-draft-model-path the target is loaded as its own draft",
    ),
    signature(
        "spec-args/capture-size",
        r"B=\d+ exceeds CG capture max \d+",
        "RuntimeError: forward_mqa: B=40 exceeds CG capture max 32",
        "srt/layers/attention: the largest captured batch is smaller than max_running_requests",
    ),
    signature(
        "shards/missing",
        r"references \d+ shard file\(s\) missing|\(incomplete download\?\)"
        r"|(?:FileNotFoundError|No such file or directory).*\.safetensors|Cannot find any model weights"
        r"|Cannot find any of \[.*safetensors"
        r"|Error no file named \S*(?:safetensors|pytorch_model|model)|Some weight files are missing"
        r"|[Nn]o (?:safetensors|(?:local |model )?weights?(?: files?)?) found|Could not find checkpoint files"
        r"|Missing keys .* in loaded state",
        "RuntimeError: /m/model.safetensors.index.json references 2 shard file(s) missing from /m"
        " (incomplete download?)",
        "srt/model_loader/weight_utils.py",
        versions="0.5.17-0.5.23",
    ),
    signature(
        "shards/damaged",
        r"Error while deserializing header|MetadataIncompleteBuffer|InvalidHeader(?:Deserialization|Length|Start)?"
        r"|HeaderTooLarge|HeaderTooSmall|InvalidOffset|PytorchStreamReader failed|failed finding central directory"
        r"|unexpected EOF, expected \d+ more bytes|UnpicklingError: invalid load key"
        r"|SafetensorError|MemoryError: .*safetensors|Consistency check failed: file should be of size"
        r"|is not a valid JSON file|oid sha256:|git-lfs\.github\.com|[Ee]rrno 5\] Input/output error"
        r"|EOFError: Ran out of input|invalid header or archive is corrupted",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "safetensors; torch/serialization.py",
    ),
    signature(
        "shards/no-file",
        r"(?:FileNotFoundError|No such file or directory)(?!.*(?:triton|inductor|flashinfer|torch_extensions))"
        r".*\.(?:json|bin|pt|gguf)\b"
        r"|(?:model|checkpoint|weights?)[ _](?:path|file|dir\w*)? ?\S* (?:does not exist|is missing|not found)"
        r"|40[14] Client Error|We couldn't connect to|Max retries exceeded with url.*huggingface",
        "FileNotFoundError: [Errno 2] No such file or directory: '/models/target/config.json'",
        "Python, transformers, huggingface_hub",
        confidence=MEDIUM,
    ),
    signature(
        "shards/not-there",
        r"Repo id must (?:be|use)|Incorrect path_or_model_id|is not a local folder and is not a valid model identifier"
        r"|does not appear to have (?:a file|files) named|LocalEntryNotFoundError|OfflineModeIsEnabled"
        r"|RepositoryNotFoundError|GatedRepoError|couldn't connect to 'https://huggingface"
        r"|Unable to load vocabulary from file|EntryNotFoundError|HFValidationError|Can't load (?:the )?(?:tokenizer"
        r"|config|image processor|feature extractor)|Couldn't instantiate the backend tokenizer"
        r"|Cannot access gated repo",
        "OSError: /models/target does not appear to have a file named config.json.",
        "transformers utils/hub.py; huggingface_hub",
    ),
    signature(
        "shards/custom-code",
        r"contains custom code which must be executed|requires you to execute the (?:configuration|modeling|tokenizer)"
        r" file|(?:argument|option) [`'\"]?trust_remote_code=True",
        "ValueError: The repository for /models/target contains custom code which must be executed to"
        " correctly load the"
        " model.",
        "transformers dynamic_module_utils.py: set sglang_server_trust_remote_code",
    ),
    signature(
        "input-too-long/request",
        r"Input length \(\d+(?: tokens)?\) exceeds the maximum allowed length"
        r"|[Ii]nput \(\d+ tokens\) is longer than the model's context length"
        r"|Requested token count exceeds the model's maximum context length"
        r"|Input length \d+ exceeds|prompt \(length \d+\) is longer than|maximum context length is \d+ tokens"
        r"|(?:[Pp]rompt|[Rr]equest|[Ii]nput)\b.{0,60}(?:too long|exceeds? (?:the )?(?:max|context|model))",
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable"
        " --allow-auto-truncate.",
        "srt/managers/schedule_batch.py, tokenizer_manager.py",
        versions="0.5.6-0.5.23",
        warning=True,
    ),
    signature(
        "port-in-use/bound",
        r"EADDRINUSE|[Aa]ddress already in use|[Ee]rrno:? 98\b|error while attempting to bind on address"
        r"|_port at \d+ is not available|[Pp]ort \d+ is (?:already )?(?:in use|occupied|used)(?! *\. Waiting)"
        r"|Cannot bind to .*port",
        "torch.distributed.DistNetworkError: The server socket has failed to listen, code: -98, name: EADDRINUSE",
        "torch TCPStore; uvicorn; srt/utils/network.py wait_port_available",
    ),
    signature(
        "port-in-use/waiting",
        r"port \d+ is in use\. Waiting|_port is used by a process already",
        "port 30003 is in use. Waiting for 15 seconds for rpc_port to be available. rpc_port is used by"
        " a process already.",
        "srt/utils/network.py wait_port_available",
        versions="0.5.6-0.5.23",
        warning=True,
    ),
    signature(
        "controlpath/too-long",
        r"too long for Unix domain socket|ControlPath too long|AF_UNIX path too long|unix_listener: .*too long",
        'unix_listener: "/home/u/.ansible/cp/ansible-ssh-host-1022-u.AAAA" too long for Unix domain socket',
        "openssh misc.c unix_listener",
    ),
    signature(
        "warmup/failed",
        r"Initialization failed\. warmup error:|Server warmup failed|[Ww]arm-?up (?:request )?failed",
        "Initialization failed. warmup error: Traceback (most recent call last):",
        "srt/entrypoints/http_server.py _execute_server_warmup",
        versions="0.5.6-0.5.23",
        strength=GENERAL,
        confidence=MEDIUM,
        at="warmup",
    ),
)
