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

PACKING = ("bert", "roberta", "xlm-roberta", "modernbert")
STORY = [
    "Nadia found a map under the floor of the old mill.",
    "It rained.",
    "She ran to the river, and swam across.",
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7), (1, 0, 7)])
def test_linear_layer_has_the_same_result_and_gradients(shape, bias):
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


def test_linear_layers_are_convolutions_only_on_x86_cpus(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(precision.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert linear_is_convolution(cpu) and not linear_is_convolution(torch.device("cuda"))
    monkeypatch.setattr(precision.platform, "machine", lambda: "arm64")
    assert not linear_is_convolution(cpu)
    layer, states = torch.nn.Linear(7, 5), torch.randn(3, 7)
    with MatrixProducts():
        assert torch.equal(layer(states), F.linear(states, layer.weight, layer.bias))


def test_weights_are_cast_once_and_again_after_a_change():
    layer, states = torch.nn.Linear(64, 8), torch.randn(4, 64)
    products = MatrixProducts(torch.bfloat16)
    with products, torch.inference_mode():
        first = layer(states)
        assert first.dtype == torch.bfloat16 and torch.allclose(
            first.float(), layer(states).float()
        )
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
    model = type(model)(
        type(model.config)(**{key: value for key, value in settings.items() if value is not None})
    )
    weights = sensitive_weights(model)
    names = {id(weight): name for name, weight in model.named_parameters()}
    # A layer of ModernBERT has four products, with queries, keys and values in one of them; other
    # models have six.
    per_layer, first = ((4, 1) if kind == "modernbert" else (6, 2)), (".0.", ".1.")
    assert (
        sum(any(part in names[id(weight)] for part in first) for weight in weights)
        == 2 * per_layer[0]
    )
    assert (
        sum(not any(part in names[id(weight)] for part in first) for weight in weights)
        == 2 * per_layer[1]
    )
    states = torch.randn(4, weights[0].shape[1])
    with MatrixProducts(torch.bfloat16, weights), torch.inference_mode():
        exact, rounded = (F.linear(states, weight) for weight in (weights[0], weights[0] * 1))
    with MatrixProducts():
        expected = F.linear(states, weights[0])
    assert exact.dtype == rounded.dtype == torch.bfloat16
    assert torch.equal(exact, expected.bfloat16())
    assert not torch.equal(exact, rounded)


def test_fast_dtype_is_bfloat16_on_cpus_with_fast_native_support(monkeypatch):
    cpu = torch.device("cpu")
    for level, features, expected in [
        ("AVX512", {"avx512_bf16": True}, torch.bfloat16),
        ("AVX512", {"avx512_bf16": False, "amx_bf16": True}, torch.bfloat16),
        (
            "AVX512",
            {"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"},
            torch.bfloat16,
        ),
        (
            "AVX512",
            {"avx512_bf16": True, "amx_bf16": False, "cpu_name": "Intel Xeon"},
            torch.float32,
        ),
        (
            "AVX512",
            {"avx512_bf16": True, "amx_bf16": False, "cpu_name": "AMD Zen4"},
            torch.bfloat16,
        ),
        ("AVX512", {"avx512_bf16": False}, torch.float32),
        ("AVX2", {"avx512_bf16": True}, torch.float32),
    ]:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda level=level: level)
        monkeypatch.setattr(
            torch.cpu, "get_capabilities", lambda features=features: features, raising=False
        )
        assert fast_dtype(cpu) == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert fast_dtype(cpu) == torch.float32
    assert fast_dtype(torch.device("mps")) == torch.float32


@pytest.fixture
def fast(monkeypatch):
    """A machine with native bfloat16."""
    monkeypatch.setattr(passes, "fast_dtype", lambda device: torch.bfloat16)


@pytest.mark.parametrize("attention", ["auto", "padded"])
@pytest.mark.parametrize("kind", [*PACKING, "mpnet"])
def test_precision_is_chosen_only_if_dtype_is_not_given(fast, kind, attention, tmp_path):
    for part in encoder_of(kind):
        part.save_pretrained(tmp_path)
    options = {"device": "cpu", "attention": attention}
    chosen = StoryEncoder.from_pretrained(tmp_path, **options)
    given = StoryEncoder.from_pretrained(tmp_path, dtype="float32", **options)
    assert (chosen.dtype, chosen.model.dtype) == (torch.bfloat16, torch.float32), (
        "sums and norms stay in float32"
    )
    assert (given.dtype, given.model.dtype) == (torch.float32, torch.float32)
    assert chosen.passes.attention == ("padded" if kind == "mpnet" else given.passes.attention)
    (a,), (b,) = (list(score_stories([STORY], encoder)) for encoder in (chosen, given))
    for name, scores in a.scores.items():
        assert scores == pytest.approx(b.scores[name], abs=0.05)
        assert scores[1:] != b.scores[name][1:]


def test_weights_stored_in_half_precision_keep_their_values(fast, tmp_path):
    """On a CPU they are cast to float32, unless another dtype is given."""
    model, tokenizer = encoder_of("bert")
    model.half().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = StoryEncoder.from_pretrained(tmp_path, device="cpu")
    assert encoder.model.dtype == torch.float32
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.float(), encoder.model.state_dict()[name])
    assert (
        StoryEncoder.from_pretrained(tmp_path, device="cpu", dtype="float16").dtype == torch.float16
    )
    model.float()


def test_model_that_fails_with_mixed_precisions_runs_in_that_of_its_weights(fast, caplog, tmp_path):
    """For example a model that multiplies the result of a linear layer with a float32 tensor."""
    model, tokenizer = encoder_of("bert")
    model.precision = "auto"
    model.pooler = None
    hook = model.encoder.layer[0].register_forward_hook(
        lambda module, inputs, output: (
            torch.bmm(
                module.output.dense(module.intermediate(inputs[0])).float(),
                module.output.dense(module.intermediate(inputs[0])).transpose(1, 2),
            )
            @ output
        )
    )
    with caplog.at_level(logging.INFO, "narrative_twins"):
        assert StoryEncoder(model, tokenizer).dtype == torch.float32
    hook.remove()
    assert "BertModel is run in the precision of its weights" in caplog.text


def test_loaded_model_keeps_its_precision(fast):
    assert StoryEncoder(*encoder_of("bert")).dtype == torch.float32
