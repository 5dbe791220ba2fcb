import re

from controller.simulator.site.sglang.metrics import Metrics


def test_values_labels_and_histograms() -> None:
    metrics = Metrics("model", (3, 4), {"sglang:page_size": 1})
    metrics.request_begins("/generate", "POST")
    metrics.request_ends("/generate", "POST", 200)
    metrics.first_output(0.2)
    metrics.output(0.06, 3)
    metrics.output(0.9, 1)
    metrics.finished(prompt=10, cached=4, made=5, verified=2, seconds=1.0)
    text = metrics.render({"gen_throughput": 80.0, "accept_length": 1.8})
    assert 'sglang:generation_tokens_total{engine_type="unified",model_name="model"} 5.0' in text
    assert 'sglang:http_responses_total{endpoint="/generate",method="POST",status_code="200"} 1.0' in text
    assert 'sglang:time_to_first_token_seconds_count{engine_type="unified",model_name="model"} 1.0' in text
    assert 'le="+Inf"} 1.0' in text
    pauses = re.findall(r'sglang:inter_token_latency_seconds_bucket\{.*le="([\d.]+|\+Inf)"\} (.*)', text)
    assert [(bound, count) for bound, count in pauses if bound in ("0.01", "0.02", "0.8", "1.0", "+Inf")] == [
        ("0.01", "0.0"),
        ("0.02", "3.0"),
        ("0.8", "3.0"),
        ("1.0", "4.0"),
        ("+Inf", "4.0"),
    ]
    assert re.search(r"^sglang:inter_token_latency_seconds_sum\{.*\} 0\.96$", text, re.MULTILINE)
    assert re.search(r"^sglang:inter_token_latency_seconds_count\{.*\} 4\.0$", text, re.MULTILINE)
    assert "sglang:spec_num_steps{" in text


def test_no_speculative_metrics_without_speculation() -> None:
    assert "sglang:spec_" not in Metrics("model", None, {}).render({})
