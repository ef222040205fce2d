"""Matrix products in the precision and with the library that are fastest."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder import passes, precision
from narrative_twins.encoder.precision import (
    MatrixProducts,
    fast_dtype,
    linear_is_convolution,
    sensitive_weights,
)

from support.models import encoder_of

STORY = [
    "Nadia found a map under the floor of the old mill.",
    "It rained.",
    "She ran to the river, and swam across.",
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7), (1, 0, 7)])
@pytest.mark.parametrize("machine", ["x86_64", "arm64"])
def test_linear_layer_has_the_same_result_and_gradients(shape, bias, machine, monkeypatch):
    """Also as a convolution, on x86 processors."""
    monkeypatch.setattr(precision.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert linear_is_convolution(torch.device("cpu")) == (machine == "x86_64")
    assert not linear_is_convolution(torch.device("cuda"))
    torch.manual_seed(0)
    layer = torch.nn.Linear(7, 5, bias=bias)
    states = torch.randn(shape, requires_grad=True)
    expected = layer(states)
    with MatrixProducts():
        found = layer(states)
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-6)
    if states.numel():
        wanted, got = (
            torch.autograd.grad(x.square().sum(), [states, layer.weight]) for x in (expected, found)
        )
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(wanted, got, strict=True))


def test_weights_are_cast_once_and_again_after_a_change():
    layer, states = torch.nn.Linear(64, 8), torch.randn(4, 64)
    products = MatrixProducts(torch.bfloat16)
    with products, torch.inference_mode():
        first = layer(states)
        assert first.dtype == torch.bfloat16 and torch.equal(first, layer(states))
        assert len(products._casts) == 2
    with torch.no_grad():
        layer.weight.mul_(2)
        layer.bias.zero_()
    expected = F.linear(states, layer.weight)
    with products, torch.inference_mode():
        assert torch.allclose(layer(states).float(), expected, atol=0.1)
        F.linear(states, layer.weight * 1)
        assert len(products._casts) == 2, "only casts of parameters are cached"


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet", "modernbert"])
def test_queries_keys_and_first_layers_keep_the_precision_of_their_weights(kind):
    model, _ = encoder_of(kind)
    settings = model.config.to_dict() | {"num_hidden_layers": 4, "layer_types": None}
    known = {key: value for key, value in settings.items() if value is not None}
    model = type(model)(type(model.config)(**known))
    weights = sensitive_weights(model)
    names = {id(weight): name for name, weight in model.named_parameters()}
    first = [any(part in names[id(weight)] for part in (".0.", ".1.")) for weight in weights]
    # A layer of ModernBERT has four products, with queries, keys and values in one of them; other
    # models have six.
    products, sensitive = (4, 1) if kind == "modernbert" else (6, 2)
    assert sum(first) == 2 * products and len(first) - sum(first) == 2 * sensitive
    states = torch.randn(4, weights[0].shape[1])
    with MatrixProducts(torch.bfloat16, weights), torch.inference_mode():
        exact, rounded = (F.linear(states, weight) for weight in (weights[0], weights[0] * 1))
    with MatrixProducts():
        expected = F.linear(states, weights[0])
    assert exact.dtype == rounded.dtype == torch.bfloat16
    assert torch.equal(exact, expected.bfloat16()) and not torch.equal(exact, rounded)


@pytest.mark.parametrize(
    ("level", "features", "expected"),
    [
        ("AVX512", {"avx512_bf16": True}, torch.bfloat16),
        ("AVX512", {"amx_bf16": True}, torch.bfloat16),
        ("AVX512", {"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel"}, torch.bfloat16),
        ("AVX512", {"avx512_bf16": True, "cpu_name": "Intel Xeon"}, torch.float32),
        ("AVX512", {"avx512_bf16": True, "cpu_name": "AMD Zen4"}, torch.bfloat16),
        ("AVX512", {}, torch.float32),
        ("AVX2", {"avx512_bf16": True}, torch.float32),
    ],
)
def test_fast_dtype_is_bfloat16_on_cpus_with_fast_native_support(
    level, features, expected, monkeypatch
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert fast_dtype(torch.device("cpu")) == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert fast_dtype(torch.device("cpu")) == torch.float32
    assert fast_dtype(torch.device("mps")) == torch.float32


@pytest.fixture
def fast(monkeypatch):
    """A machine with native bfloat16."""
    monkeypatch.setattr(passes, "fast_dtype", lambda device: torch.bfloat16)


@pytest.mark.parametrize("attention", ["auto", "padded"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "modernbert", "mpnet"])
def test_precision_is_chosen_only_if_dtype_is_not_given(fast, kind, attention, tmp_path):
    """Weights stored in half precision keep their values; sums and norms are in float32."""
    model, tokenizer = encoder_of(kind)
    model.half().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    options = {"device": "cpu", "attention": attention}
    chosen = StoryEncoder.from_pretrained(tmp_path, **options)
    given = StoryEncoder.from_pretrained(tmp_path, dtype="float32", **options)
    assert (chosen.dtype, chosen.model.dtype) == (torch.bfloat16, torch.float32)
    assert (given.dtype, given.model.dtype) == (torch.float32, torch.float32)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.float(), chosen.model.state_dict()[name])
    assert chosen.passes.attention == given.passes.attention
    (a,), (b,) = (list(score_stories([STORY], encoder)) for encoder in (chosen, given))
    for name, scores in a.scores.items():
        assert scores == pytest.approx(b.scores[name], abs=0.05)
        assert scores[1:] != b.scores[name][1:]


def test_other_precisions_are_those_of_the_weights(fast, bert_folder):
    half = StoryEncoder.from_pretrained(bert_folder, device="cpu", dtype="float16")
    assert half.dtype == half.model.dtype == torch.float16
    assert StoryEncoder(*encoder_of("bert")).dtype == torch.float32, "of a loaded model"


def test_model_that_fails_with_mixed_precisions_runs_in_that_of_its_weights(fast, caplog):
    """For example a model that multiplies the result of a linear layer with a float32 tensor."""
    model, tokenizer = encoder_of("bert")
    model.precision = "auto"

    def mix(module, inputs, output):
        states = module.output.dense(module.intermediate(inputs[0]))
        return torch.bmm(states.float(), states.transpose(1, 2)) @ output

    model.encoder.layer[0].register_forward_hook(mix)
    with caplog.at_level(logging.INFO, "narrative_twins"):
        assert StoryEncoder(model, tokenizer).dtype == torch.float32
    assert "BertModel is run in the precision of its weights" in caplog.text
