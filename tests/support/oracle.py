"""Salience the slow and obvious way, to hold the engine against: every variant is written out as text, tokenized and
encoded on its own, one at a time. Shares no code with the package."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def tokens_of(tokenizer, sentences):
    """Token ids of the text of `sentences` and the sentence each token belongs to, None for the special ones."""
    text = ""
    places = []
    for sentence in sentences:
        text += " " if text else ""
        places.append((len(text), len(text) + len(sentence)))
        text += sentence
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    owners = []
    for (start, end), special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        held = [max(0, min(end, hi) - max(start, lo)) for lo, hi in places]
        if max(held) == 0:  # the space between two sentences
            held = [1 if lo == end else 0 for lo, hi in places]
        owners.append(None if special else held.index(max(held)))
    return encoded["input_ids"], owners


class Oracle:
    """Scores one story at a time with a `transformers` model and its fast tokenizer.

    `context_tokens` limits what one pass reads as the package documents it: whole sentences round the window, as evenly
    on both sides as the story allows.
    """

    def __init__(self, model, tokenizer, pooling="mean"):
        self.model, self.tokenizer, self.pooling = model.eval(), tokenizer, pooling

    def embed(self, sentences, windows, window):
        """The vector of `window` in the text of `sentences`, of which each belongs to one of `windows`; all tokens
        where `window` is None."""
        ids, owners = tokens_of(self.tokenizer, sentences)
        with torch.no_grad():
            states = self.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        chosen = [
            t for t, owner in enumerate(owners) if window is None or owner is not None and windows[owner] == window
        ]
        assert chosen, "nothing to pool"
        return states[chosen[0]] if self.pooling == "first" else states[chosen].mean(0)

    def score(self, sentences, spans):
        """`{operation: [float]}` for a story whose windows are `spans`."""
        n = len(sentences)
        home = [w for w, (lo, hi) in enumerate(spans) for _ in range(lo, hi)]
        scores = {name: [0.0] * n for name in ("deletion", "shifting", "disruption", "summarization")}
        for w, (lo, hi) in enumerate(spans):
            pooled = None if len(spans) == 1 else w

            def vector(order):
                return self.embed([sentences[j] for j in order], [home[j] for j in order], pooled)

            base = vector(range(n))
            for i in range(lo, hi):
                scores["summarization"][i] = similarity(base, vector([i]))
                if hi - lo == 1:
                    continue
                without = [j for j in range(n) if j != i]
                scores["deletion"][i] = 1 - similarity(base, vector(without))
                moved = []
                for place in range(lo, hi):
                    if place != i:
                        order = list(without)
                        order.insert(place, i)
                        moved.append(similarity(base, vector(order)))
                scores["shifting"][i] = 1 - sum(moved) / len(moved)
                if i > lo:
                    scores["disruption"][i] = 1 - similarity(vector(range(i + 1)), vector(range(i)))
        return scores

    def score_one_pass(self, sentences, spans):
        """The approximation by the token states of one pass over the story, which has to fit the context."""
        n = len(sentences)
        ids, owners = tokens_of(self.tokenizer, sentences)
        with torch.no_grad():
            states = self.model(input_ids=torch.tensor([ids])).last_hidden_state[0].double()
        scores = {name: [0.0] * n for name in ("deletion", "disruption", "summarization")}
        for lo, hi in spans:
            # The special tokens belong to the one window of a story that has no other.
            homes = [*range(lo, hi), *([None] if len(spans) == 1 else [])]

            def mean(own):
                chosen = [state for state, owner in zip(states, owners, strict=True) if owner in own]
                return sum(chosen) / len(chosen)

            for i in range(lo, hi):
                scores["summarization"][i] = similarity(mean(homes), mean([i]))
                if hi - lo > 1:
                    scores["deletion"][i] = 1 - similarity(mean(homes), mean([home for home in homes if home != i]))
                if i > lo:
                    upto = [home for home in homes if home is None or home <= i]
                    before = [home for home in upto if home != i]
                    scores["disruption"][i] = 1 - similarity(mean(upto), mean(before))
        return scores


def similarity(a, b):
    return F.cosine_similarity(a.double(), b.double(), dim=0).item()


def twins_loss(model, tokenizer, texts, pooling="mean", temperature=0.05, distractors=True, in_story_negatives=True):
    """The loss of a batch, written out pair by pair; every text goes through the model on its own.

    Args:
        texts: for each row of the batch a dict of `story`, `twin` and perhaps `negative` and `negative_twin`, each a
            pair of its sentences and the window of each, -1 for none.
    """
    # Of each pair the two vectors, the story and the window; beside them what is a negative for all.
    pairs, extras = [], []
    for number, row in enumerate(texts):
        count = max(row["story"][1]) + 1
        told = {
            side: [_window(model, tokenizer, *text, window if count > 1 else None, pooling) for window in range(count)]
            for side, text in row.items()
            if text is not None
        }
        for window in range(count):
            pairs.append((told["story"][window], told["twin"][window], number, window))
        if distractors and "negative" in told:
            if "negative_twin" in told and count == 1:
                pairs.append((told["negative"][0], told["negative_twin"][0], f"distractor of {number}", 0))
            else:
                extras.extend(vector for vector in told["negative"] if vector is not None)
    pairs = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    everything = [(vector, story, window) for a, b, story, window in pairs for vector in (a, b)]
    losses = []
    for at, (query, story, window) in enumerate(everything):
        partner = at + 1 if at % 2 == 0 else at - 1
        scores = [cosine(query, everything[partner][0]) / temperature]
        for other, (key, its_story, its_window) in enumerate(everything):
            if other in (at, partner):
                continue
            if not in_story_negatives and its_story == story and its_window != window:
                continue
            scores.append(cosine(query, key) / temperature)
        for key in extras:
            scores.append(cosine(query, key) / temperature)
        losses.append(torch.log(sum(torch.exp(score) for score in scores)) - scores[0])
    return sum(losses) / len(losses)


def cosine(a, b):
    return (a * b).sum() / ((a * a).sum().sqrt() * (b * b).sum().sqrt())


def _window(model, tokenizer, sentences, windows, window, pooling):
    """The vector of a window of a text, of the whole text where it is None; None if the window has no token."""
    ids, owners = tokens_of(tokenizer, sentences)
    states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    own = [
        states[t]
        for t, owner in enumerate(owners)
        if window is None or (owner is not None and windows[owner] == window)
    ]
    if not own:
        return None
    return own[0] if pooling == "first" else sum(own) / len(own)
