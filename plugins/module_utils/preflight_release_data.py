"""Flags and possible EAGLE-3 targets of each SGLang release, as changes from one release to the next.

Generated from the sources in SGLang's wheels by ``python -m tests.contract data``; do not edit. Pure data.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple


class Release(NamedTuple):
    """One release: words separated by white space, relative to the release before."""

    version: str
    flags_added: str
    flags_removed: str
    eagle3_targets_added: str


RELEASES: Tuple[Release, ...] = (
    Release(
        "0.5.6",
        """
        --abort-on-priority-when-disabled --allow-auto-truncate --api-key --attention-backend --base-gpu-id
        --bucket-e2e-request-latency --bucket-inter-token-latency --bucket-time-to-first-token --chat-template
        --checkpoint-engine-wait-weights-before-ready --chunked-prefill-size --collect-tokens-histogram
        --completion-template --config --constrained-json-disable-any-whitespace
        --constrained-json-whitespace-pattern --context-length --cpu-offload-gb --crash-dump-folder --cuda-graph-bs
        --cuda-graph-max-bs --custom-weight-loader --data-parallel-size --debug-tensor-dump-inject
        --debug-tensor-dump-input-file --debug-tensor-dump-layers --debug-tensor-dump-output-folder
        --decode-attention-backend --decode-log-interval --decrypted-config-file --decrypted-draft-config-file
        --deepep-config --deepep-mode --delete-ckpt-after-loading --device --disable-chunked-prefix-cache
        --disable-cuda-graph --disable-cuda-graph-padding --disable-custom-all-reduce --disable-fast-image-processor
        --disable-flashinfer-cutlass-moe-fp4-allgather --disable-hybrid-swa-memory --disable-outlines-disk-cache
        --disable-overlap-schedule --disable-radix-cache --disable-shared-experts-fusion
        --disable-tokenizer-batch-decode --disaggregation-bootstrap-port --disaggregation-decode-dp
        --disaggregation-decode-enable-offload-kvcache --disaggregation-decode-polling-interval
        --disaggregation-decode-tp --disaggregation-ib-device --disaggregation-mode --disaggregation-prefill-pp
        --disaggregation-transfer-backend --dist-init-addr --dist-timeout --dllm-algorithm --dllm-block-size
        --download-dir --dp-size --ds-channel-config-path --ds-heavy-channel-num --ds-heavy-channel-type
        --ds-heavy-token-num --ds-sparse-decode-threshold --dtype --dynamic-batch-tokenizer-batch-size
        --dynamic-batch-tokenizer-batch-timeout --elastic-ep-backend --enable-attn-tp-input-scattered
        --enable-broadcast-mm-inputs-process --enable-cache-report --enable-cudagraph-gc
        --enable-custom-logit-processor --enable-deterministic-inference --enable-double-sparsity
        --enable-dp-attention --enable-dp-lm-head --enable-draft-weights-cpu-backup --enable-dynamic-batch-tokenizer
        --enable-eplb --enable-expert-distribution-metrics --enable-flashinfer-allreduce-fusion
        --enable-flashinfer-autotune --enable-fp32-lm-head --enable-hierarchical-cache
        --enable-layerwise-nvtx-marker --enable-lmcache --enable-lora --enable-memory-saver --enable-metrics
        --enable-metrics-for-all-schedulers --enable-mixed-chunk --enable-mscclpp --enable-multimodal
        --enable-nan-detection --enable-nccl-nvls --enable-nsa-prefill-context-parallel --enable-p2p-check
        --enable-pdmux --enable-piecewise-cuda-graph --enable-priority-scheduling --enable-profile-cuda-graph
        --enable-request-time-stats-logging --enable-return-hidden-states --enable-single-batch-overlap
        --enable-symm-mem --enable-tokenizer-batch-encode --enable-torch-compile --enable-torch-compile-debug-mode
        --enable-torch-symm-mem --enable-trace --enable-two-batch-overlap --enable-weights-cpu-backup --ep
        --ep-dispatch-algorithm --ep-num-redundant-experts --ep-size --eplb-algorithm
        --eplb-min-rebalancing-utilization-threshold --eplb-rebalance-layers-per-chunk
        --eplb-rebalance-num-iterations --expert-distribution-recorder-buffer-size
        --expert-distribution-recorder-mode --expert-parallel-size --export-metrics-to-file
        --export-metrics-to-file-dir --fastapi-root-path --file-storage-path --flashinfer-mla-disable-ragged
        --flashinfer-mxfp4-moe-precision --forward-hooks --gc-warning-threshold-secs --generation-tokens-buckets
        --gpu-id-step --grammar-backend --grpc-mode --help --hicache-io-backend --hicache-mem-layout --hicache-ratio
        --hicache-size --hicache-storage-backend --hicache-storage-backend-extra-config
        --hicache-storage-prefetch-policy --hicache-write-policy --host --hybrid-kvcache-ratio
        --init-expert-location --is-embedding --json-model-override-args --keep-mm-feature-on-device --kt-cpuinfer
        --kt-max-deferred-experts-per-token --kt-method --kt-num-gpu-experts --kt-threadpool-count --kt-weight-path
        --kv-cache-dtype --kv-events-config --load-balance-method --load-format --load-watch-interval --log-level
        --log-level-http --log-requests --log-requests-level --lora-backend --lora-eviction-policy --lora-paths
        --lora-target-modules --mamba-full-memory-ratio --mamba-ssm-dtype --max-loaded-loras --max-lora-chunk-size
        --max-lora-rank --max-loras-per-batch --max-mamba-cache-size --max-prefill-tokens --max-queued-requests
        --max-running-requests --max-total-tokens --mem-fraction-static --mm-attention-backend
        --mm-enable-dp-encoder --mm-max-concurrent-calls --mm-per-request-timeout --mm-process-config --model
        --model-impl --model-loader-extra-config --model-path --modelopt-checkpoint-restore-path
        --modelopt-checkpoint-save-path --modelopt-export-path --modelopt-quant --moe-a2a-backend
        --moe-dense-tp-size --moe-runner-backend --mooncake-ib-device --multi-item-scoring-delimiter
        --nccl-init-addr --nccl-port --nnodes --node-rank --nsa-decode-backend --nsa-prefill-backend
        --num-continuous-decode-steps --num-reserved-decode-tokens --numa-node --offload-group-size --offload-mode
        --offload-num-in-group --offload-prefetch-step --otlp-traces-endpoint --page-size --pdmux-config-path
        --piecewise-cuda-graph-compiler --piecewise-cuda-graph-max-tokens --piecewise-cuda-graph-tokens
        --pipeline-parallel-size --port --pp-max-micro-batch-size --pp-size --preferred-sampling-params
        --prefill-attention-backend --prefill-round-robin-balance --priority-scheduling-preemption-threshold
        --prompt-tokens-buckets --quantization --quantization-param-path --quantize-and-serve
        --radix-eviction-policy --random-seed --reasoning-parser --remote-instance-weight-loader-seed-instance-ip
        --remote-instance-weight-loader-seed-instance-service-port
        --remote-instance-weight-loader-send-weights-group-ports --revision --rl-on-policy-target --sampling-backend
        --sampling-defaults --schedule-conservativeness --schedule-low-priority-values-first --schedule-policy
        --scheduler-recv-interval --served-model-name --show-time-cost --skip-server-warmup --skip-tokenizer-init
        --sleep-on-idle --sm-group-num --speculative-accept-threshold-acc --speculative-accept-threshold-single
        --speculative-algorithm --speculative-attention-mode --speculative-draft-load-format
        --speculative-draft-model --speculative-draft-model-path --speculative-draft-model-revision
        --speculative-eagle-topk --speculative-moe-runner-backend --speculative-ngram-branch-length
        --speculative-ngram-capacity --speculative-ngram-match-type --speculative-ngram-max-bfs-breadth
        --speculative-ngram-max-match-window-size --speculative-ngram-min-bfs-breadth
        --speculative-ngram-min-match-window-size --speculative-num-draft-tokens --speculative-num-steps
        --speculative-token-map --stream-interval --stream-output --swa-full-tokens-ratio
        --tbo-token-distribution-threshold --tensor-parallel-size --tokenizer-metrics-allowed-custom-labels
        --tokenizer-metrics-custom-labels-header --tokenizer-mode --tokenizer-path --tokenizer-worker-num
        --tool-call-parser --tool-server --torch-compile-max-bs --torchao-config --tp-size
        --triton-attention-num-kv-splits --triton-attention-reduce-in-fp32 --triton-attention-split-tile-size
        --trust-remote-code --warmups --watchdog-timeout --weight-loader-disable-mmap --weight-version
        """,
        "",
        """
        ApertusForCausalLM DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM
        DeepseekV3ForCausalLMNextN Glm4MoeForCausalLM Glm4MoeForCausalLMNextN GptOssForCausalLM InternLM3ForCausalLM
        Llama4ForCausalLM Llama4ForConditionalGeneration LlamaForCausalLM LlamaForCausalLMEagle
        LlamaForCausalLMEagle3 LongcatFlashForCausalLM LongcatFlashForCausalLMNextN MiniMaxM2ForCausalLM
        MistralForCausalLM Phi3ForCausalLM Qwen2ForCausalLM Qwen2ForCausalLMEagle Qwen2MoeForCausalLM
        Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM TeleFLMForCausalLM
        """,
    ),
    Release(
        "0.5.6.post1",
        "--dllm-algorithm-config --enable-fused-qk-norm-rope --speculative-moe-a2a-backend",
        "--dllm-block-size",
        "Ministral3ForCausalLM MistralLarge3ForCausalLM MistralLarge3ForCausalLMEagle",
    ),
    Release(
        "0.5.6.post2",
        "--fp8-gemm-backend --rl-quant-profile",
        "",
        "",
    ),
    Release(
        "0.5.7",
        """
        --custom-sigquit-handler --disable-flashinfer-autotune --disaggregation-decode-enable-fake-auto
        --enable-dynamic-chunking --enable-multi-layer-eagle --enable-precise-embedding-interpolation
        --enable-prefix-mm-cache --enable-return-routed-experts --encoder-only --encoder-transfer-backend
        --encoder-urls --language-only --limit-mm-data-per-request --log-requests-format --mamba-scheduler-strategy
        --mamba-track-interval --pp-async-batch-depth --prefill-max-requests --remote-instance-weight-loader-backend
        --remote-instance-weight-loader-start-seed-via-transfer-engine --soft-watchdog-timeout
        --speculative-draft-attention-backend --speculative-draft-model-quantization
        """,
        "--enable-flashinfer-autotune --load-watch-interval",
        "",
    ),
    Release(
        "0.5.8",
        """
        --admin-api-key --disable-hicache-numa-detect --enable-lora-overlap-loading --enable-prefill-delayer
        --fp4-gemm-backend --hf-chat-template-name --hierarchical-sparse-attention-extra-config
        --log-requests-target --model-checksum --nsa-prefill-cp-mode --prefill-delayer-forward-passes-buckets
        --prefill-delayer-max-delay-passes --prefill-delayer-token-usage-low-watermark
        --prefill-delayer-wait-seconds-buckets --uvicorn-access-log-exclude-prefixes
        """,
        "",
        "Glm4MoeLiteForCausalLM IQuestCoderForCausalLM",
    ),
    Release(
        "0.5.8.post1",
        "",
        "",
        "",
    ),
    Release(
        "0.5.9",
        """
        --attention-context-parallel-size --attn-cp-size --extra-metric-labels --mamba-backend
        --moe-data-parallel-size --moe-dp-size
        """,
        "--disaggregation-decode-enable-fake-auto",
        """
        BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM ExaoneMoEForCausalLM
        ExaoneMoEForCausalLMMTP GlmMoeDsaForCausalLM Qwen3NextForCausalLM Qwen3NextForCausalLMMTP
        """,
    ),
    Release(
        "0.5.10",
        """
        --default-priority-value --disable-piecewise-cuda-graph --disable-priority-preemption
        --enable-adaptive-dispatch-to-encoder --enable-aiter-allreduce-fusion --enable-elastic-expert-backup
        --enable-fused-moe-sum-all-reduce --enable-hisparse --enable-mfu-metrics --enable-mm-global-cache
        --enable-prefill-context-parallel --enable-ssl-refresh --enable-streaming-session
        --enforce-disable-flashinfer-allreduce-fusion --enforce-piecewise-cuda-graph --engine-info-bootstrap-port
        --experts-shared-outer-loras --gc-threshold --hisparse-config --incremental-streaming-output
        --linear-attn-backend --linear-attn-decode-backend --linear-attn-prefill-backend --modelexpress-config
        --pre-warm-nccl --prefill-cp-mode --speculative-ngram-max-trie-depth --ssl-ca-certs --ssl-certfile
        --ssl-keyfile --ssl-keyfile-password --stream-response-default-include-usage --use-ray
        """,
        """
        --disable-hicache-numa-detect --disaggregation-decode-dp --disaggregation-decode-tp
        --disaggregation-prefill-pp --hierarchical-sparse-attention-extra-config --mm-max-concurrent-calls
        --mm-per-request-timeout --speculative-ngram-branch-length --speculative-ngram-max-match-window-size
        --speculative-ngram-min-match-window-size
        """,
        "KimiK25ForConditionalGeneration MindSporeForCausalLM SarvamMoEForCausalLM",
    ),
    Release(
        "0.5.10.post1",
        "",
        "",
        "",
    ),
    Release(
        "0.5.11",
        """
        --batch-notify-size --debug-cuda-graph --disaggregation-decode-enable-radix-cache --elastic-ep-rejoin
        --enable-breakable-cuda-graph --enable-dp-attention-local-control-broadcast --enable-http2 --enable-mis
        --enable-quant-communications --enforce-shared-experts-fusion --grpc-http-sidecar-port --lora-strict-loading
        --lora-use-virtual-experts --msprobe-dump-config --record-nolora-graph --speculative-adaptive
        --speculative-adaptive-config --speculative-dflash-block-size --speculative-dflash-draft-window-size
        --speculative-ngram-external-corpus-max-tokens --speculative-ngram-external-corpus-path
        --speculative-ngram-external-sam-budget --speculative-skip-dp-mlp-sync --strip-thinking-cache
        --tokenizer-backend --weight-loader-prefetch-checkpoints --weight-loader-prefetch-num-threads
        """,
        """
        --ds-channel-config-path --ds-heavy-channel-num --ds-heavy-channel-type --ds-heavy-token-num
        --ds-sparse-decode-threshold --enable-double-sparsity --multi-item-scoring-delimiter
        """,
        """
        InternS1ProForConditionalGeneration MistralForCausalLMEagle Qwen3VLForConditionalGeneration
        Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration
        """,
    ),
    Release(
        "0.5.12",
        """
        --detokenizer-worker-num --enable-deepep-waterfill --enable-forward-pass-metrics
        --enable-return-indexer-topk --enable-strict-thinking --forward-pass-metrics-ipc-name
        --forward-pass-metrics-worker-id --hierarchical-sparse-attention-extra-config --lora-drain-wait-threshold
        --model-config-parser --prefill-delayer-max-delay-ms --prefill-delayer-queue-min-ratio
        --prefill-only-disable-kv-cache --speculative-draft-window-size --weight-loader-drop-cache-after-load
        """,
        "",
        """
        Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4AssistantForCausalLM Gemma4ForCausalLM
        Gemma4ForConditionalGeneration InternS2PreviewForConditionalGeneration
        """,
    ),
    Release(
        "0.5.12.post1",
        "",
        "",
        "",
    ),
    Release(
        "0.5.13",
        """
        --asr-max-buffer-seconds --asr-max-concurrent-sessions --deepep-dispatcher-output-dtype
        --disable-attn-tp-gather --dsa-decode-backend --dsa-prefill-backend --dsa-prefill-cp-mode --dsa-topk-backend
        --enable-deepseek-v4-fp4-indexer --enable-dsa-prefill-context-parallel --encoder-bootstrap-port
        --encoder-register-urls --kv-canary --kv-canary-real-data --kv-canary-sweep-interval --lmcache-config-file
        --load-snapshot-publish-interval --optimistic-prefill-retries --radix-cache-backend --trace-modules
        """,
        "--enable-nan-detection --record-nolora-graph",
        """
        Gemma4UnifiedAssistantForCausalLM Gemma4UnifiedForConditionalGeneration Glm4MoeLiteForCausalLMNextN
        Qwen3MoeForCausalLMMTP
        """,
    ),
    Release(
        "0.5.13.post1",
        "",
        "",
        "",
    ),
    Release(
        "0.5.14",
        """
        --cp-strategy --cuda-graph-backend-decode --cuda-graph-backend-prefill --cuda-graph-bs-decode
        --cuda-graph-bs-prefill --cuda-graph-config --cuda-graph-max-bs-decode --cuda-graph-max-bs-prefill
        --cuda-graph-tc-compiler --disable-decode-cuda-graph --disable-prefill-cuda-graph
        --disaggregation-decode-extra-slots --enable-int8-mamba-checkpoint --enable-prefill-cp
        --flashinfer-allreduce-fusion-backend --int8-mamba-ckpt-size --mamba-radix-cache-strategy
        --speculative-use-rejection-sampling
        """,
        """
        --custom-sigquit-handler --debug-tensor-dump-inject --enable-piecewise-cuda-graph --hybrid-kvcache-ratio
        """,
        "",
    ),
    Release(
        "0.5.15",
        """
        --bf16-gemm-backend --dcp-size --decode-context-parallel-size --decoupled-spec-bind-endpoint
        --decoupled-spec-connect-endpoints --decoupled-spec-rank --decoupled-spec-role
        --dsa-paged-mqa-logits-backend --enable-linear-replayssm --enable-mamba-cache-stochastic-rounding
        --enable-page-major-kv-layout --enable-session-radix-cache --enable-tf32-matmul --enable-unified-memory
        --linear-replayssm-cache-len --mamba-cache-philox-rounds --min-free-slots-delay --spec-trace-dir
        """,
        "",
        "",
    ),
    Release(
        "0.5.15.post1",
        "",
        "",
        "",
    ),
    Release(
        "0.5.16",
        """
        --default-chat-template-kwargs --dllm-fdfo --elastic-ep-initial-size --elastic-ep-join-mode
        --elastic-ep-join-rank-offset --elastic-ep-scale-timeout --enable-dsa-cache-layer-split --enable-flexkv
        --enable-gdn-replayssm-spec --enable-scattered-sconv --enable-waterfill --flexkv-config-file --fuseep-mode
        --grpc-port --max-ep-size --mm-feature-transport --optimistic-prefill-attempts --retraction-policy --sidecar
        --sidecar-args --smg-grpc-mode --smg-http-sidecar-port
        --speculative-dspark-align-verify-tokens-to-graph-tier --speculative-dspark-block-size
        --speculative-dspark-confidence-sts-path --speculative-dspark-sps-table-path
        """,
        "--enable-deepep-waterfill --optimistic-prefill-retries",
        "GlmMoeDsaForCausalLMNextN MellumForCausalLM MiniMaxM3SparseForCausalLM",
    ),
    Release(
        "0.5.17",
        """
        --dcp-comm-backend --dcp-replicate-q-proj --dwdp-size --enable-cp-decode-attn-tp
        --enable-linear-replayssm-spec --flashinfer-autotune-skip-ops --linear-attn-verify-backend
        --mamba-max-states-per-path --mm-io-worker-num --mm-processor-worker-num --return-hidden-states-mode
        --weight-cache-mode --weight-cache-socket --weight-cache-timeout
        """,
        "",
        "EmbeddingGemmaModel",
    ),
    Release(
        "0.5.18",
        """
        --allowed-media-domains --c128-page-size --disaggregation-decode-retraction-backup
        --enable-tp-lm-head-all-to-all --expert-balancedness-report-mode --http2-max-concurrent-streams
        --image-processor-backend --language-model-only --media-url-max-file-size-mb --mlx-enable-sampling
        --mm-global-cache-backend --mm-preprocess-cache-size-mb --speculative-draft-kv-cache-dtype
        --startup-weight-load-mode --trust-mm-content-hashes
        """,
        "--torchao-config",
        "InternS2MobiusForConditionalGeneration MiniMaxM3SparseForConditionalGeneration",
    ),
    Release(
        "0.5.19",
        """
        --deepep-v2-mode --dsv4-prefill-backend --enable-dense-mlp-attn-tp --enable-layernorm-sp
        --enable-lean-attention --enable-shared-experts-attn-tp --enable-w4a4-mxfp4-megamoe --gated-launch-port
        --hicache-host-memory-mode --hicache-storage-prefetch-retry-max-attempts
        --hicache-storage-prefetch-retry-poll-interval --http2-initial-connection-window-size
        --load-publish-endpoint --prefill-decode-interval --speculative-dsa-topk-backend
        """,
        "",
        "",
    ),
    Release(
        "0.5.20",
        """
        --dsv4-attn-backend --enable-response-store --enable-unified-cache-external-linker
        --flashinfer-a2a-dispatch-type --ple-offload-backend --ple-offload-dir --ple-offload-embedding
        --radix-eviction-policy-config --return-input-ids --return-output-ids --sampling-mask-max-tokens
        --speculative-domino-candidate-pool-size --unified-cache-external-linker-backend --uno-lora-path
        """,
        """
        --collect-tokens-histogram --cuda-graph-bs --cuda-graph-max-bs --disable-piecewise-cuda-graph
        --dsa-prefill-cp-mode --enable-breakable-cuda-graph --enable-dsa-prefill-context-parallel
        --enable-expert-distribution-metrics --enable-gdn-replayssm-spec --enable-nsa-prefill-context-parallel
        --enable-prefill-context-parallel --enforce-piecewise-cuda-graph --mamba-scheduler-strategy
        --nsa-decode-backend --nsa-prefill-backend --nsa-prefill-cp-mode --piecewise-cuda-graph-compiler
        --piecewise-cuda-graph-max-tokens --piecewise-cuda-graph-tokens --prefill-cp-mode
        --prefill-round-robin-balance --speculative-dflash-draft-window-size --stream-output
        """,
        """
        Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration Glm5NextForConditionalGenerationNextN
        Qwen4ExpForConditionalGeneration
        """,
    ),
    Release(
        "0.5.21",
        """
        --boundary-reduction --constrained-json-max-whitespace-cnt --context-bucket --cuda-graph-max-seq-len-prefill
        --cuda-graph-prefill-max-context --disable-aiter-allreduce-fusion-in-decode
        --disable-aiter-allreduce-fusion-in-prefill --disaggregation-decode-host-receive-threshold
        --disaggregation-enable-kv-checksum --enable-decoder-swa-bounded-replay --enable-encoder-swa-bounded-replay
        --enable-linker-mla-dedup --enable-pd-role-switch --grpc-response-timeout-secs
        --hicache-host-memory-fraction --otlp-service-name --prefill-kv-cache-dequant-dtype --shared-experts-tp-size
        --speculative-draft-sink-size --swa-prefix-tails --trust-request-chat-template
        """,
        "--elastic-ep-rejoin --keep-mm-feature-on-device",
        "",
    ),
    Release(
        "0.5.22",
        """
        --attention-data-parallel-size --attn-dp-size --disaggregation-decode-allocation-policy --dsa-triton-union
        --enable-dsa-fused-indexer --enable-kv-cache-sharding --enable-watermark --qsa-indexer-dtype
        --speculative-enable-w4a4-mxfp4-megamoe --speculative-use-block-verification --watermark-config
        """,
        "--cuda-graph-tc-compiler",
        "ExaoneMoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
    ),
    Release(
        "0.5.23",
        """
        --enable-amd-monokernel --enable-hicache --enable-http-worker-reuseport --enable-megamoe-for-layernorm-sp
        --enable-nvidia-megakernel --enable-paged-experts --enable-return-aux-hidden-states --monokernel-backend
        --paged-experts-num-resident --prefill-decode-interval-min-bs --return-aux-hidden-state-layer-ids
        --unified-cache-external-linker-config
        """,
        "--speculative-skip-dp-mlp-sync",
        "",
    ),
)
