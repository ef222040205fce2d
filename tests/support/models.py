"""Small random encoders of common kinds, with tokenizers trained on a few sentences: no files, no
network."""

from copy import deepcopy
from functools import cache
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
import transformers
from sentence_transformers.sentence_transformer import modules as modules
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from narrative_twins import StoryEncoder

SENTENCES = """Nadia found a map under the floor of the old mill. Her brother laughed at it; he said it was a toy.
"Where does it lead?" asked Mr. O'Brien, who had heard them. It was the child's.
She didn't answer. At dawn they walked to the river.
The water had risen, and the bridge was gone! Her brother wanted to turn back... Nadia swam across alone.
On the other side she saw the stone from the map. Under it lay 1,250 silver coins and a letter from their mother.
They never told anyone, not even in 1987. Years later the mill burned down. I was there. It rained all night.
Das Mädchen öffnete die Tür; niemand war da. Él corrió hacia el río. 東京は雨でした。 Привет, сказал он.""".split(
    "\n"
)
"""Sentences to train tokenizers on, written for these tests."""


class Learn(NamedTuple):
    """The training texts of a tokenizer, and the size of its vocabulary."""

    texts: tuple[str, ...] = tuple(SENTENCES)
    size: int = 600


LITTLE = Learn()
SPECIAL = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}
DECODERS = {"qwen3": "$A </s>", "llama": "<s> $A", "mistral": "<s> $A </s>"}
"""Decoders, and what their tokenizers put around a text, as published embedders of these kinds."""
BERT_LIKE = ("bert", "bert-cased", "modernbert", "superwords")


@cache
def tokenizer_of(kind: str, learn: Learn = LITTLE):
    """A tokenizer like those of the published checkpoints of a family; cached, since training
    breaks ties at random. Tokens of `superwords`, BPE without pre-tokenization, can cross
    sentences, so ids of sentences in a row differ from the text's."""
    special = SPECIAL["bert" if kind in BERT_LIKE else "roberta"]
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    if kind not in BERT_LIKE:
        names = {f"{name}_token": f"<{name}>" for name in ("pad", "unk", "mask")}
        names |= {"cls_token": "<s>", "sep_token": "</s>"}
    options = {"special_tokens": special, "show_progress": False}
    texts = learn.texts
    if kind in DECODERS:
        made = Tokenizer(models.BPE(unk_token="<unk>"))
        words = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+")
        split = pre_tokenizers.Split(words, "isolated")
        of_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([split, of_bytes])
        if kind == "mistral":
            made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind != "mistral" else []
        trainer = trainers.BpeTrainer(vocab_size=learn.size, initial_alphabet=alphabet, **options)
    elif kind in ("bert", "bert-cased", "mpnet"):
        made = Tokenizer(models.WordPiece(unk_token=names["unk_token"]))
        made.normalizer = normalizers.BertNormalizer(lowercase=kind != "bert-cased")
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=learn.size, **options)
    elif kind in ("roberta", "modernbert"):
        made = Tokenizer(models.BPE())
        if kind == "modernbert":
            made.normalizer = normalizers.NFC()
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=learn.size, initial_alphabet=alphabet, **options)
    elif kind == "xlm-roberta":
        made = Tokenizer(models.Unigram())
        single_spaces = normalizers.Replace(Regex(" {2,}"), " ")
        made.normalizer = normalizers.Sequence([normalizers.NFKC(), single_spaces])
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        size = learn.size // 2
        trainer = trainers.UnigramTrainer(vocab_size=size, unk_token="<unk>", **options)
    else:
        made = Tokenizer(models.BPE(unk_token="[UNK]"))
        trainer = trainers.BpeTrainer(vocab_size=learn.size // 3, **options)
        texts = [" ".join(texts)]
    made.train_from_iterator(texts, trainer)
    first, last = names["cls_token"], names["sep_token"]
    made.post_processor = processors.TemplateProcessing(
        DECODERS.get(kind, f"{first} $A {last}"),
        special_tokens=[(x, made.token_to_id(x)) for x in (first, last)],
    )
    if kind == "qwen3":
        names["padding_side"] = "left"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


FAMILIES = ("bert", "bert-cased", "mpnet", "roberta", "modernbert", "xlm-roberta")
"""Tokenizer families that split text at white space."""


def encoder_of(kind: str, positions: int = 512, learn: Learn = LITTLE):
    torch.manual_seed(7)
    tokenizer = tokenizer_of(kind, learn)
    size = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "pad_token_id": tokenizer.pad_token_id,
        # Large weights tell stories apart, as published checkpoints do; with small ones all vectors
        # would be alike.
        "initializer_range": 0.5,
    }
    names = {"roberta": "Roberta", "mpnet": "MPNet", "xlm-roberta": "XLMRoberta"}
    if kind in DECODERS:
        # Two heads of the query share one of key and value; Mistral has a short sliding window.
        del size["initializer_range"]
        size |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
        size |= {"sliding_window": 24} if kind == "mistral" else {}
    # These do not use the positions up to the padding id.
    kept = tokenizer.pad_token_id + 1 if kind in names else 0
    others = {"modernbert": "ModernBert", **{kind: kind.capitalize() for kind in DECODERS}}
    name = (names | others).get(kind, "Bert")
    if name == "ModernBert":
        first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
        size |= {"cls_token_id": first, "bos_token_id": first}
        size |= {"sep_token_id": last, "eos_token_id": last}
        size |= {"local_attention": 32, "global_attn_every_n_layers": 2}
    config = getattr(transformers, f"{name}Config")
    model = getattr(transformers, f"{name}Model")
    return model(config(max_position_embeddings=positions + kept, **size)).eval(), tokenizer


@cache
def small(
    kind: str = "bert",
    positions: int = 512,
    pooling: str = "mean",
    attention: str = "auto",
    **options,
) -> StoryEncoder:
    model, tokenizer = encoder_of(kind, positions)
    return StoryEncoder(model, tokenizer, pooling=pooling, attention=attention, **options)


@cache
def _trained_from(kind: str, pooling: str, positions: int, **options):
    from narrative_twins.training.trainer import trainable_encoder

    with TemporaryDirectory() as folder:
        for part in encoder_of(kind, positions):
            part.save_pretrained(folder)
        return trainable_encoder(folder, pooling=pooling, **options).cpu()


def trainable(kind: str = "bert", pooling: str = "mean", positions: int = 512, **options):
    """A random `SentenceTransformer` of a kind, ready to be trained."""
    return deepcopy(_trained_from(kind, pooling, positions, **options))


def save_base(folder, name: str = "multilingual") -> None:
    """Save a random base of the `multilingual` or `base` encoder of the package, of as many layers
    and of the same width, with a small vocabulary."""
    kind, width = {"multilingual": ("bert", 384), "base": ("mpnet", 768)}[name]
    model, tokenizer = encoder_of(kind)
    sizes = {"hidden_size": width, "num_hidden_layers": 12, "intermediate_size": 4 * width}
    torch.manual_seed(0)
    config = type(model.config)(**model.config.to_dict() | sizes | {"num_attention_heads": 12})
    type(model)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
