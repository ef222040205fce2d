"""Matrix products in the precision and with the library that are fastest."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder import passes, precision
from narrative_twins.encoder.precision import MatrixProducts, fast_dtype, linear_is_convolution

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


@pytest.mark.parametrize(("capability", "expected"), [((8, 0), "bfloat16"), ((7, 5), "float32")])
def test_fast_dtype_is_bfloat16_on_gpus_with_native_support_only(capability, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert fast_dtype(torch.device("cuda")) == getattr(torch, expected)
    assert fast_dtype(torch.device("cpu")) == fast_dtype(torch.device("mps")) == torch.float32


@pytest.fixture
def fast(monkeypatch):
    """As on a GPU with native bfloat16."""
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
