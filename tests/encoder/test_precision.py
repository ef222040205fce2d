"""Matrix products in the precision that is fastest."""

import pytest
import torch

from narrative_twins import StoryEncoder, score_stories
from narrative_twins.encoder.passes import fast_dtype

from support.models import encoder_of
from support.scoring import THREE


@pytest.mark.parametrize(("capability", "expected"), [((8, 0), "bfloat16"), ((7, 5), "float32")])
def test_fast_dtype_is_bfloat16_on_gpus_with_native_support_only(capability, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert fast_dtype(torch.device("cuda")) == getattr(torch, expected)
    assert fast_dtype(torch.device("cpu")) == fast_dtype(torch.device("mps")) == torch.float32


@pytest.mark.parametrize("attention", ["auto", "padded"])
@pytest.mark.parametrize("kind", ["bert", "modernbert", "mpnet"])
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
    (a,), (b,) = (list(score_stories([THREE], encoder)) for encoder in (chosen, given))
    for name, scores in a.scores.items():
        assert scores == pytest.approx(b.scores[name], abs=0.05)
        assert scores[1:] != b.scores[name][1:]


def test_other_precisions_are_those_of_the_weights(fast, bert_folder):
    half = StoryEncoder.from_pretrained(bert_folder, device="cpu", dtype="float16")
    assert half.dtype == half.model.dtype == torch.float16
    assert StoryEncoder(*encoder_of("bert")).dtype == torch.float32, "of a loaded model"
