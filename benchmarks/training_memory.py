"""Memory of training by arithmetic, as the table of docs/training.md: `python benchmarks/training_memory.py`.

No weights are loaded: models are made of their configurations on the device `meta`. How many texts of 64 tokens fit a
card is counted with a tenth of its memory left free.
"""

import copy

import torch
from transformers import AutoModel, BertConfig, ModernBertConfig, Qwen3Config

from narrative_twins.encoder.adapters import adapted, lora_config
from narrative_twins.training.estimate import GB, training_memory

TOKENS = 64  # of a five-sentence story
CARDS = (24, 40, 80)
FREE = 0.1
LORA = {"rank": 16}


def decoder(hidden: int, layers: int, feed_forward: int, heads: int) -> Qwen3Config:
    """Return the configuration of a Qwen3-Embedding model."""
    return Qwen3Config(
        vocab_size=151_669,
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=feed_forward,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
    )


MODELS = {
    "BERT large": BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
    "Ettin 1B": ModernBertConfig(
        vocab_size=50_368,
        hidden_size=1792,
        num_hidden_layers=28,
        num_attention_heads=28,
        intermediate_size=3840,
    ),
    "Qwen3-Embedding 0.6B": decoder(1024, 28, 3072, 16),
    "Qwen3-Embedding 4B": decoder(2560, 36, 9728, 32),
    "Qwen3-Embedding 8B": decoder(4096, 36, 12288, 32),
}


def fitting(model: torch.nn.Module, card: float) -> str:
    """Return how many texts can be encoded at a time on a card, with all activations and with
    gradient checkpointing; `no` if not even the weights fit."""
    counts = []
    for recomputed in (False, True):
        memory = training_memory(model, TOKENS, bf16=True, recomputed=recomputed)
        room = card * GB * (1 - FREE) - memory.fixed
        counts.append(int(room // memory.activations))
    plain, recomputed = counts
    return "no" if recomputed < 1 else f"{max(plain, 0):,} / {recomputed:,}"


def main() -> None:
    cards = " | ".join(f"{card} GB" for card in CARDS)
    print(f"| encoder | trained | weights, gradients, optimizer | 64 texts | {cards} |")
    print("|" + "---|" * (4 + len(CARDS)))
    for name, config in MODELS.items():
        with torch.device("meta"):
            full = AutoModel.from_config(config)
        frozen = copy.deepcopy(full).to(torch.bfloat16)
        for model, kind in ((full, "all"), (adapted(frozen, lora_config(LORA)), "LoRA")):
            weights = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
            memory = training_memory(model, 64 * TOKENS, bf16=True)
            cells = [name, f"{kind}, {weights / 1e6:,.0f}M", f"{memory.fixed / GB:.1f} GB"]
            cells += [f"{memory.activations / GB:.1f} GB"]
            cells += [fitting(model, card) for card in CARDS]
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
