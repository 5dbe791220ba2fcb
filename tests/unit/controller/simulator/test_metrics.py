from controller.simulator.site.sglang.metrics import Metrics


def test_values_labels_and_histograms() -> None:
    metrics = Metrics("model", (3, 4), {"sglang:page_size": 1})
    metrics.request_begins("/generate", "POST")
    metrics.request_ends("/generate", "POST", 200)
    metrics.finished(prompt=10, cached=4, made=5, verified=2, seconds=1.0, first_token=0.2)
    text = metrics.render({"gen_throughput": 80.0, "accept_length": 1.8})
    assert 'sglang:generation_tokens_total{engine_type="unified",model_name="model"} 5.0' in text
    assert 'sglang:http_responses_total{endpoint="/generate",method="POST",status_code="200"} 1.0' in text
    assert 'sglang:time_to_first_token_seconds_count{engine_type="unified",model_name="model"} 1.0' in text
    assert 'le="+Inf"} 1.0' in text
    assert "sglang:spec_num_steps{" in text


def test_no_speculative_metrics_without_speculation() -> None:
    assert "sglang:spec_" not in Metrics("model", None, {}).render({})
